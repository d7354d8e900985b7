/** Leases: neither a slow list, nor a database outage, nor a slow answer may cost a run its progress. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { connectDatabase, sql } from '../../src/database/database.ts'
import { saveCheckpoint } from '../../src/runs/finish.ts'
import { ageMs, takeMoment } from '../../src/runs/moment.ts'
import { readySkippedRuns, recoverLostRuns } from '../../src/runs/recover.ts'
import { startWorker } from '../../src/runs/worker.ts'
import { claimRuns } from '../harness/claims.ts'
import { startDatabaseProxy } from '../harness/database-proxy.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine({ RUN_LEASE_SECONDS: '3', RUN_CHECKPOINT_MS: '200' })
const { db } = engine.services
const limits = { free: 10, perOrganization: 10, leaseSeconds: 30 }
const slow = { dummy: { records: 600, delay_ms: 10 } }

test('a lease counts from the moment it is written, however long its transaction has lasted', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  await db.transaction(async (tx) => {
    await tx.execute(sql`SELECT pg_sleep(1.5)`)
    await claimRuns(tx, 'test', limits)
  })
  const row = await db.first<{ left: number }>(
    sql`SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 AS left FROM runs WHERE id = ${run}`,
  )
  assert.ok(row!.left > 29, `${row!.left} s are left of 30`)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = ${run}`)
})

test('the larger of two ages counts, if a clock was set back or a machine was suspended', () => {
  const now = takeMoment()
  assert.ok(ageMs({ wall: now.wall + 3_600_000, monotonic: now.monotonic - 5000 }) >= 5000)
  assert.ok(ageMs({ wall: now.wall - 5000, monotonic: now.monotonic }) >= 5000)
})

test('requests that occupy all connections do not cost a run its lease', async () => {
  const worker = await engine.work()
  const run = await engine.trigger(await engine.createPipeline(slow))
  await engine.until(run, ({ status }) => status === 'running')
  const lists = Array.from({ length: 20 }, () => db.first(sql`SELECT pg_sleep(2.5)`))
  const ended = await engine.finished(run)
  await Promise.all(lists)
  assert.deepEqual([ended.status, ended.attempt, ended.lost_attempts], ['success', 1, 0])
  await worker.stop(AbortSignal.abort())
})

/** A worker behind a bad network, next to the application with a good one. */
async function startFarWorker() {
  const proxy = await startDatabaseProxy(engine.connection)
  const far = connectDatabase(proxy.connection, 4, () => {})
  const worker = await startWorker({ ...engine.services, db: far })
  let stopped = false
  const stop = async () => {
    if (stopped) return
    stopped = true
    await worker.stop(AbortSignal.abort())
    await far.close()
    await proxy.close()
  }
  after(stop)
  return { proxy, far, stop }
}

test('a database outage does not count against a run, however often', async () => {
  const { proxy, far, stop } = await startFarWorker()
  const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 1500, delay_ms: 10 } }))
  for (let outage = 1; outage <= 3; outage++) {
    await engine.until(run, ({ status, attempt }) => status === 'running' && attempt >= outage)
    proxy.fallSilent(true)
    // Longer than the lease: the worker has to give up the run, and reports it when it is back.
    await delay(4000)
    // The process that looks for lost runs was cut off too.
    assert.equal(await recoverLostRuns({ ...far.control, steadyForMs: () => 0 }, 3), 0)
    proxy.recover()
  }
  const ended = await engine.finished(run)
  assert.deepEqual([ended.status, ended.lost_attempts, ended.error], ['success', 0, null])
  assert.match(await engine.logs(run), /cut off from the database; the run resumes from checkpoint/)
  await stop()
})

test('a process that starts after an outage gives workers the time of a lease before it declares one lost', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  await claimRuns(db, 'a worker that could not renew', limits)
  await db.execute(sql`UPDATE runs SET lease_until = now() - interval '1 second' WHERE id = ${run}`)
  const fresh = connectDatabase(engine.connection, 2, () => {})
  assert.equal(await recoverLostRuns(fresh.control, 3600), 0)
  assert.equal((await engine.run(run)).lost_attempts, 0)
  assert.equal(await recoverLostRuns({ ...fresh.control, steadyForMs: () => 3600_000 }, 3600), 1)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = ${run}`)
  await fresh.close()
})

test('an unannounced failover costs a worker seconds', async () => {
  const { proxy, stop } = await startFarWorker()
  await engine.finished(await engine.trigger(await engine.createPipeline({})))
  proxy.fallSilent()
  const began = performance.now()
  const ended = await engine.finished(await engine.trigger(await engine.createPipeline({})))
  assert.equal(ended.status, 'success')
  assert.ok(performance.now() - began < 30_000, `took ${performance.now() - began} ms`)
  await stop()
})

test('a checkpoint resets the count of lost workers', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  await db.execute(sql`UPDATE runs SET lost_attempts = 2 WHERE id = ${run}`)
  const [claimed] = await claimRuns(db, 'test', limits)
  const checkpoint = { checkpoint: 1, cursor: 1, parts: [], records_read: 9, records_written: 9, bytes_written: 9 }
  assert.equal(await saveCheckpoint(db, claimed!, checkpoint), true)
  await db.execute(sql`UPDATE runs SET lease_until = now() - interval '1 second' WHERE id = ${run}`)
  await recoverLostRuns(db.control, 0)
  const row = await engine.run(run)
  assert.deepEqual([row.status, row.lost_attempts], ['pending', 1])
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = ${run}`)
})

test('a pending run that was locked when its turn came is found again', async () => {
  const pipeline = await engine.createPipeline({})
  const first = await engine.trigger(pipeline)
  const second = await engine.trigger(pipeline)
  await db.transaction(async (tx) => {
    await tx.execute(sql`SELECT 1 FROM runs WHERE id = ${second} FOR UPDATE`)
    const answer = await engine.call('POST', `/api/pipelines/runs/${first}/cancel`, { as: engine.person })
    assert.equal(answer.status, 200)
  })
  const isReady = async () =>
    (await db.first<{ ready: boolean }>(sql`SELECT ready FROM runs WHERE id = ${second}`))!.ready
  assert.equal(await isReady(), false, 'it was passed over')
  assert.equal(await readySkippedRuns(db), 1)
  assert.equal(await isReady(), true)
  assert.equal(await readySkippedRuns(db), 0)
})
