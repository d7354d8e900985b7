/** Which workers are woken when a run is ready. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Connections, KEPT_OPEN, sql } from '../../src/database/database.ts'
import { CHANNEL, readSeats, wakeWorkers } from '../../src/database/notifications.ts'
import { listenForRuns, type WakeUps } from '../../src/runs/wake-ups.ts'
import { startWorker } from '../../src/runs/worker.ts'
import { countConnections } from '../harness/count-connections.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { services } = engine
const workers: WakeUps[] = []
after(() => Promise.all(workers.map((worker) => worker.stop())))
const nothing = { ready: () => true, cancelled() {}, followed() {}, gap() {} }

test('an idle worker that listens never needs more connections than the pool keeps open', async () => {
  const { counted, most } = countConnections(services.db.control)
  let looks = 0
  const looked = Promise.withResolvers<void>()
  const control: Connections = {
    ...counted,
    first: (statement) => {
      if (statement.text.includes('failed_attempts > 0') && ++looks === 3) looked.resolve()
      return counted.first(statement)
    },
  }
  const worker = await startWorker({ ...services, db: { ...services.db, control } })
  await looked.promise
  const idle = most()
  await worker.stop(AbortSignal.abort())
  assert.ok(idle <= KEPT_OPEN, `${idle} at once`)
})

test('of many idle workers eight listen, and another takes the place of one that leaves', async () => {
  for (let index = 0; index < 12; index++) workers.push(listenForRuns(services, `worker ${index}`, nothing))
  for (const worker of workers) await worker.keepSeat(true)
  const listening = () => workers.filter((worker) => worker.listening())
  assert.equal(listening().length, 8)
  for (const worker of workers) await worker.keepSeat(true)
  assert.deepEqual(listening(), workers.slice(0, 8), 'who has a seat keeps it')
  await workers[0]!.keepSeat(false)
  await workers[11]!.keepSeat(true)
  assert.deepEqual(listening(), [...workers.slice(1, 8), workers[11]])
})

test('a message wakes as many workers as there are runs; one without room passes it on', async () => {
  const woken: string[] = []
  const everyone = Promise.withResolvers<void>()
  let full = new Set<string>()
  const own = Array.from({ length: 4 }, (_, index) => {
    const name = `own ${index}`
    const ready = () => {
      woken.push(name)
      if (woken.length === 4) everyone.resolve()
      return !full.has(name)
    }
    return listenForRuns(services, name, { ...nothing, ready })
  })
  after(() => Promise.all(own.map((worker) => worker.stop())))
  for (const worker of workers) await worker.keepSeat(false)
  for (const worker of own) await worker.keepSeat(true)
  const heard = Promise.withResolvers<string>()
  const stop = await services.db.listen(CHANNEL, (payload) => heard.resolve(payload))
  await services.db.execute(wakeWorkers(2))
  assert.equal(readSeats(await heard.promise).seats!.length, 2)
  await stop()
  while (woken.length < 2) await new Promise((resolve) => setTimeout(resolve, 5))
  await everyone.promise
  assert.equal(new Set(woken).size, 4, 'the others look later, once')
  woken.length = 0
  full = new Set(['own 0', 'own 1', 'own 2'])
  await services.db.execute(wakeWorkers(1))
  while (!woken.includes('own 3')) await new Promise((resolve) => setTimeout(resolve, 5))
  for (const worker of own) await worker.stop()
  for (const worker of workers) await worker.keepSeat(true)
})

test('a worker without room passes on many messages together', async () => {
  for (const worker of workers) await worker.keepSeat(false)
  const roomy = Promise.withResolvers<void>()
  const full = listenForRuns(services, 'full', { ...nothing, ready: () => false })
  after(() => full.stop())
  await full.keepSeat(true)
  const seat = (await services.db.first<{ seat: number }>(
    sql`SELECT seat FROM listening_workers WHERE worker = 'full'`,
  ))!.seat
  let passedOn = 0
  const stop = await services.db.listen(CHANNEL, (payload) => {
    if (readSeats(payload).tried.includes(seat)) passedOn++
  })
  const MESSAGES = 200
  const sent = sql`SELECT pg_notify(${CHANNEL}, 'ready ' || ${seat}::int || ' ') FROM generate_series(1, 1)`
  // One statement each: PostgreSQL drops equal messages of one transaction.
  for (let index = 0; index < MESSAGES; index++) await services.db.execute(sent)
  const other = listenForRuns(services, 'roomy', {
    ...nothing,
    ready: () => {
      roomy.resolve()
      return true
    },
  })
  after(() => other.stop())
  await other.keepSeat(true)
  await services.db.execute(sent)
  await roomy.promise
  await stop()
  assert.ok(passedOn < MESSAGES / 4, `${passedOn} of ${MESSAGES} messages`)
  await full.stop()
  await other.stop()
  for (const worker of workers) await worker.keepSeat(true)
})

test('the seat of a dead worker is free after a while', async () => {
  await services.db.execute(
    sql`UPDATE listening_workers SET until = now() - interval '1 second' WHERE worker = 'worker 3'`,
  )
  await workers[9]!.keepSeat(true)
  assert.ok(workers[9]!.listening())
  await workers[3]!.keepSeat(true)
  assert.ok(!workers[3]!.listening(), 'should it have lived, it looks by itself from now on')
})

test('a worker without a seat finds its runs, and hears of a cancel within seconds', async () => {
  const occupied = (await services.db.query(sql`SELECT 1 FROM listening_workers WHERE until > now()`)).length
  assert.equal(occupied, 8)
  await engine.work()
  const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 100_000, delay_ms: 10 } }))
  await engine.until(run, ({ records_read }) => records_read > 0)
  const began = performance.now()
  assert.equal((await engine.call('POST', `/api/pipelines/runs/${run}/cancel`, { as: engine.person })).status, 200)
  // Its last line is written only when the attempt has ended.
  for (;;) {
    if ((await engine.logs(run)).includes('The run was stopped')) break
    assert.ok(performance.now() - began < 5000, 'the run is stopped within five seconds')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
})
