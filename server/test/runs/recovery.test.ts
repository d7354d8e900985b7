import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { saveCheckpoint } from '../../src/runs/finish.ts'
import { recoverLostRuns } from '../../src/runs/recover.ts'
import { finishSuccess } from '../../src/runs/success.ts'
import { runPlace } from '../../src/runs/trigger.ts'
import { registerPerson } from '../harness/app.ts'
import { claimRuns } from '../harness/claims.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine({ ORG_CONCURRENCY: '3' })
const { db } = engine.services
const claim = (worker: string, free = 100, perOrganization = 3) =>
  claimRuns(db, worker, { free, perOrganization, leaseSeconds: 15 })
const expire = (run: string) =>
  db.execute(sql`UPDATE runs SET lease_until = now() - interval '1 second' WHERE id = ${run}`)
const outcome = { output: null, cursor: null, records_read: 1, records_written: 1, bytes_written: 1 }

test('a lost worker can change nothing: its attempt matches no row', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  const [first] = await claim('dead worker')
  await expire(run)
  assert.equal(await recoverLostRuns(db.control, 0), 1)
  const [second] = await claim('live worker')
  assert.equal(second!.attempt, 2)
  const checkpoint = { checkpoint: 1, cursor: 1, parts: [], records_read: 9, records_written: 9, bytes_written: 9 }
  assert.equal(await saveCheckpoint(db, first!, checkpoint), false)
  assert.equal(await finishSuccess(db, first!, { outcome, incremental: false, log: null }), false)
  assert.equal((await engine.run(run)).status, 'running')
  assert.equal(await finishSuccess(db, second!, { outcome, incremental: false, log: null }), true)
  assert.equal(
    await finishSuccess(db, second!, { outcome, incremental: false, log: null }),
    false,
    'ending twice changes nothing',
  )
})

test('a run is given up when its third worker is lost, and says why', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  for (let lost = 1; lost <= 3; lost++) {
    const claimed = await claim(`worker ${lost}`)
    assert.equal(claimed[0]!.attempt, lost)
    await expire(run)
    await recoverLostRuns(db.control, 0)
  }
  const ended = await engine.run(run)
  assert.equal(ended.status, 'failed')
  assert.match(ended.error!, /^internal: .*lost 3 times/)
  assert.match(await engine.logs(run), /Another worker resumes from checkpoint 0/)
})

test('an organization never has more running runs than its limit, however many workers claim at once', async () => {
  for (let index = 0; index < 12; index++) await engine.trigger(await engine.createPipeline({}))
  const claimed = (await Promise.all(Array.from({ length: 6 }, (_, index) => claim(`worker ${index}`, 4)))).flat()
  assert.equal(claimed.length, 3)
  assert.equal(new Set(claimed.map((run) => run.id)).size, 3, 'no run is taken twice')
  for (const run of claimed) await finishSuccess(db, run, { outcome, incremental: false, log: null })
  assert.equal((await claim('again')).length, 3)
  await db.execute(
    sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status IN ('pending', 'running')`,
  )
})

test('a tenant with ten thousand pending runs does not delay the single run of another', async () => {
  const busy = await engine.createPipeline({})
  await engine.trigger(busy)
  await claim('busy worker')
  await engine.trigger(busy)
  const template = await engine.trigger(await engine.createPipeline({}))
  const seq = await db.first<{ id: string }>(sql`SELECT id FROM runs WHERE id = ${template}`)
  await db.execute(sql`
    INSERT INTO pipelines (id, organization_id, name, config_box, stream)
    SELECT gen_random_uuid(), p.organization_id, 'flood', p.config_box, 'creatures' FROM pipelines p CROSS JOIN generate_series(1, 10000) WHERE p.id = ${busy}`)
  await db.execute(sql`
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, config_box)
    SELECT p.organization_id, p.id, 'manual', true, (SELECT config_box FROM runs WHERE id = ${seq!.id}) FROM pipelines p WHERE p.name = 'flood'`)
  await db.execute(sql`ANALYZE runs`)
  assert.equal((await claim('flooded')).length, 2, 'the flooding organization has its limit')
  const other = await registerPerson(engine, 'Quiet')
  const began = performance.now()
  const single = await engine.trigger(await engine.createPipeline({}, other), other)
  const [claimed] = await claim('free worker')
  const ms = performance.now() - began
  assert.equal(claimed!.id, single)
  // The bench asserts 100 ms; here it is enough that it does not wait for the flood.
  assert.ok(ms < 2000, `took ${ms} ms`)
})

test('a run whose configuration cannot be read fails with a reason, and holds up none of those claimed with it', async () => {
  await db.execute(
    sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status IN ('pending', 'running')`,
  )
  const [broken, sound] = [await engine.createPipeline({}), await engine.createPipeline({})]
  const run = await engine.trigger(broken)
  const other = await engine.trigger(sound)
  const { organization_id } = (await db.first<{ organization_id: string }>(
    sql`SELECT organization_id FROM runs WHERE id = ${run}`,
  ))!
  const nothing = engine.services.box.seal(runPlace(organization_id, run), null)
  await db.execute(sql`UPDATE runs SET config_box = ${nothing} WHERE id = ${run}`)
  await engine.work()
  assert.equal((await engine.finished(other)).status, 'success')
  const ended = await engine.finished(run)
  assert.equal(ended.status, 'failed')
  assert.equal(ended.error, 'config: The configuration of this run cannot be read; trigger the pipeline again.')
})
