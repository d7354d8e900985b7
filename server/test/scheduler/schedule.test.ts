import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { pino } from 'pino'
import { loadManyReferences } from '../../src/connections/references.ts'
import { type Statement, script, sql } from '../../src/database/database.ts'
import { expireOutputs, removeDeletedRuns } from '../../src/scheduler/cleanup.ts'
import { scheduleDuePipelines } from '../../src/scheduler/due-pipelines.ts'
import { nextDueMs } from '../../src/scheduler/next-due.ts'
import { startScheduler } from '../../src/scheduler/scheduler.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { call, person, services } = engine
const { db, box, blobs } = services
const silent = pino({ level: 'silent' })
const tick = () => scheduleDuePipelines(db, box, silent)

/** Unless a test says otherwise, none becomes due by itself while others are looked at. */
async function scheduled(more: Record<string, unknown> = {}): Promise<string> {
  const config = { name: 's', source: { name: 'dummy', stream: 'plants' }, destination: { name: 'file' } }
  const answer = await call('POST', '/api/pipelines', {
    as: person,
    body: { name: 's', config, schedule: '0 0 1 1 *', ...more },
  })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}

const due = (id: string, ago = '1 second') =>
  db.execute(sql`UPDATE pipelines SET next_run_at = now() - ${ago}::interval WHERE id = ${id}`)
const runsOf = async (id: string) => (await call('GET', `/api/pipelines/${id}/runs`, { as: person })).body

test('a due pipeline runs once, even after a long downtime, and its next time is in the future', async () => {
  const id = await scheduled({ schedule: '*/5 * * * *' })
  await due(id, '3 days')
  assert.equal(await tick(), 1)
  assert.equal(await tick(), 0)
  const runs = await runsOf(id)
  assert.deepEqual(
    runs.map((run: { triggered_by: string; status: string }) => [run.triggered_by, run.status]),
    [['schedule', 'pending']],
  )
  const row = await db.first<{ ahead: boolean }>(
    sql`SELECT next_run_at > now() AND next_run_at <= now() + interval '5 minutes' AS ahead FROM pipelines WHERE id = ${id}`,
  )
  assert.ok(row!.ahead)
})

test('the scheduler looks when a pipeline is due, and whenever a minute begins', async () => {
  await db.execute(sql`UPDATE pipelines SET next_run_at = NULL`)
  const toMinute = await db.transaction(async (tx) => {
    const row = await tx.first<{ ms: number }>(sql`SELECT (60 - extract(second FROM now()))::float8 * 1000 AS ms`)
    return [await nextDueMs(tx), row!.ms]
  })
  assert.ok(Math.abs(toMinute[0]! - toMinute[1]!) < 1, `${toMinute}`)
  const id = await scheduled()
  await due(id, '-1 second')
  const soon = await nextDueMs(db)
  assert.ok(soon <= 1000, `${soon} ms`)
  await due(id)
  assert.ok((await nextDueMs(db)) <= 0)
  await db.execute(sql`UPDATE pipelines SET enabled = false WHERE id = ${id}`)
  assert.ok((await nextDueMs(db)) > 0, 'a disabled pipeline is never due')
})

test('a running scheduler starts what is due', async () => {
  const scheduler = await startScheduler(services)
  const id = await scheduled()
  await due(id, '-1 second')
  const deadline = Date.now() + 60_000
  while ((await runsOf(id)).length === 0) {
    assert.ok(Date.now() < deadline, 'no run was started')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await scheduler.stop(AbortSignal.abort())
})

test('a scheduler with nothing to do hardly asks the database', async () => {
  await db.execute(sql`UPDATE pipelines SET next_run_at = NULL`)
  let transactions = 0
  let looks = 0
  const lookedTwice = Promise.withResolvers<void>()
  const control = {
    ...db.control,
    first: ((statement) => {
      if (++looks === 3) lookedTwice.resolve()
      return db.control.first(statement)
    }) as typeof db.control.first,
  }
  const transaction = ((work) => {
    transactions++
    return db.transaction(work)
  }) as typeof db.transaction
  const scheduler = await startScheduler({ ...services, db: { ...db, control, transaction } })
  await lookedTwice.promise
  await scheduler.stop(AbortSignal.abort())
  assert.ok(transactions < 20, `${transactions} transactions in a few seconds`)
})

test('an organization with thousands of due pipelines delays the single one of another by two batches at most', async () => {
  await db.execute(sql`UPDATE pipelines SET next_run_at = NULL`)
  const flood = await scheduled()
  await db.execute(sql`
    INSERT INTO pipelines (organization_id, name, config_box, stream, schedule, next_run_at)
    SELECT organization_id, 'flood', config_box, stream, schedule, now() - interval '1 hour' FROM pipelines CROSS JOIN generate_series(1, 4000) WHERE id = ${flood}`)
  const other = await registerPerson(engine, 'Other')
  const single = await engine.createPipeline({}, other)
  await db.execute(
    sql`UPDATE pipelines SET schedule = '0 0 1 1 *', next_run_at = now() - interval '1 second' WHERE id = ${single}`,
  )
  assert.equal(await tick(), 4001)
  const place = await db.first<{ before: number }>(sql`
    SELECT count(*)::int AS before FROM runs r WHERE r.seq < (SELECT s.seq FROM runs s WHERE s.pipeline_id = ${single})
       AND r.pipeline_id IN (SELECT p.id FROM pipelines p WHERE p.name = 'flood')`)
  assert.ok(place!.before <= 1500, `${place!.before} came first`)
  await db.execute(sql`DELETE FROM pipelines WHERE name = 'flood'`)
})

test('an invalid schedule does not block others, and a long batch is pinned in pieces', async () => {
  const [broken, ...others] = await Promise.all(Array.from({ length: 60 }, () => scheduled()))
  await db.execute(sql`UPDATE pipelines SET schedule = 'no schedule' WHERE id = ${broken!}`)
  for (const id of [broken!, ...others]) await due(id)
  assert.equal(await tick(), 60)
  const row = await db.first<{ runs: number; unscheduled: boolean }>(sql`
    SELECT (SELECT count(*) FROM runs WHERE pipeline_id = ANY (${others}::uuid[])) AS runs,
           (SELECT next_run_at IS NULL FROM pipelines WHERE id = ${broken!}) AS unscheduled`)
  assert.deepEqual(row, { runs: 59, unscheduled: true })
})

test('a pipeline that cannot be started is postponed, with one log line, and holds up none of its batch', async () => {
  const [poisoned, ...others] = await Promise.all(Array.from({ length: 8 }, () => scheduled()))
  await db.execute(
    script(`
    CREATE FUNCTION refuse_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no run of this one'; END $$;
    CREATE TRIGGER refuse_run BEFORE INSERT ON runs FOR EACH ROW WHEN (NEW.pipeline_id = '${poisoned}') EXECUTE FUNCTION refuse_run()`),
  )
  for (const id of [poisoned!, ...others]) await due(id)
  const lines: { level: number; pipeline_id?: string; msg: string }[] = []
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) })
  assert.equal(await scheduleDuePipelines(db, box, log), 8)
  const row = await db.first<{ runs: number; poisoned: number; later: boolean }>(sql`
    SELECT (SELECT count(*) FROM runs WHERE pipeline_id = ANY (${others}::uuid[])) AS runs,
           (SELECT count(*) FROM runs WHERE pipeline_id = ${poisoned!}) AS poisoned,
           (SELECT next_run_at BETWEEN now() + interval '4 minutes' AND now() + interval '6 minutes' FROM pipelines WHERE id = ${poisoned!}) AS later`)
  assert.deepEqual(row, { runs: 7, poisoned: 0, later: true })
  const about = lines.filter((line) => line.pipeline_id !== undefined)
  assert.deepEqual(
    about.map((line) => [line.pipeline_id, line.level]),
    [[poisoned, 50]],
  )
  await db.execute(script('DROP TRIGGER refuse_run ON runs'))
  await due(poisoned!)
  assert.equal(await tick(), 1)
  assert.equal((await runsOf(poisoned!)).length, 1, 'it runs once what prevented it is gone')
})

test('a saved connector that many due pipelines use is read once', async () => {
  const body = { name: 'Zoo', connector_name: 'dummy', config: { config: { records: 1 } } }
  const saved = (await call('POST', '/api/saved/sources', { as: person, body })).body
  const wanted = { organization_id: person.organization_id, source_id: saved.id, source_name: null }
  const rows: unknown[] = []
  const query = async <Row>(statement: Statement) => {
    const found = await db.query<Row>(statement)
    rows.push(...found)
    return found
  }
  const references = await loadManyReferences(
    { query, first: db.first, execute: db.execute },
    Array.from({ length: 50 }, () => ({ ...wanted, destination_id: null })),
  )
  assert.equal(rows.length, 1)
  assert.deepEqual(new Set(references.map(({ source }) => source?.id)), new Set([saved.id]))
  const stranger = { ...wanted, organization_id: randomUUID(), destination_id: saved.id }
  assert.deepEqual(await loadManyReferences(db, [stranger]), [{ source: null, destination: null, custom: null }])
})

test('a tick is skipped while a run is pending or running, and the log says so', async () => {
  const id = await scheduled()
  const run = await engine.trigger(id)
  await due(id)
  assert.equal(await tick(), 1)
  assert.equal((await runsOf(id)).length, 1)
  assert.match(await engine.logs(run), /that scheduled run was skipped/)
})

test('disabled pipelines do nothing, and enabling one does not catch up', async () => {
  const id = await scheduled({ enabled: false })
  await db.execute(sql`UPDATE pipelines SET next_run_at = now() - interval '1 hour' WHERE id = ${id}`)
  assert.equal(await tick(), 0)
  assert.equal((await call('PUT', `/api/pipelines/${id}`, { as: person, body: { enabled: true } })).status, 200)
  assert.equal(await tick(), 0)
  assert.equal((await runsOf(id)).length, 0)
})

test('a changed schedule takes effect at once', async () => {
  const id = await scheduled({ schedule: '0 0 1 1 *' })
  await call('PUT', `/api/pipelines/${id}`, { as: person, body: { schedule: '* * * * *' } })
  const row = await db.first<{ soon: boolean }>(
    sql`SELECT next_run_at <= now() + interval '1 minute' AS soon FROM pipelines WHERE id = ${id}`,
  )
  assert.ok(row!.soon)
  await call('PUT', `/api/pipelines/${id}`, { as: person, body: { schedule: null } })
  assert.equal(
    (await db.first<{ next_run_at: null }>(sql`SELECT next_run_at FROM pipelines WHERE id = ${id}`))!.next_run_at,
    null,
  )
})

test('many schedulers start each due pipeline once, in a number of queries that grows with batches', async () => {
  const ids = []
  for (let index = 0; index < 30; index++) ids.push(await scheduled())
  await db.execute(sql`UPDATE pipelines SET next_run_at = now() WHERE id = ANY (${ids}::uuid[])`)
  await Promise.all([tick(), tick(), tick(), tick()])
  const counts = await db.query<{ count: number }>(
    sql`SELECT count(*) FROM runs WHERE pipeline_id = ANY (${ids}::uuid[]) GROUP BY pipeline_id`,
  )
  assert.deepEqual(
    counts.map((row) => row.count),
    ids.map(() => 1),
  )
})

test('old outputs are removed, those of the last success stay, and the blobs of a deleted pipeline are removed', async () => {
  const worker = await engine.work()
  const id = await scheduled()
  const first = await engine.trigger(id)
  await engine.finished(first)
  const second = await engine.trigger(id)
  await engine.finished(second)
  await worker.stop(AbortSignal.abort())
  await db.execute(sql`UPDATE runs SET finished_at = now() - interval '40 days' WHERE pipeline_id = ${id}`)
  assert.equal(await expireOutputs(services, 30), 1)
  assert.equal((await call('GET', `/api/pipelines/runs/${first}/output`, { as: person })).status, 404)
  assert.equal((await call('GET', `/api/pipelines/runs/${second}/output`, { as: person })).status, 200)
  await call('DELETE', `/api/pipelines/${id}`, { as: person })
  await removeDeletedRuns(services)
  const left = []
  for await (const blob of blobs.list(`${person.organization_id}/runs/${second}/`)) left.push(blob.key)
  assert.deepEqual(left, [])
})
