/**
 * The platform's database is restored from a backup while destinations keep what came after it. Rows and sequence are put
 * back to what they were; that is all of a restore that runs can see.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { raw, sql } from '../../src/database/database.ts'
import { finishFailed, type RunLease, saveCheckpoint } from '../../src/runs/finish.ts'
import { markRestored } from '../../src/runs/restored.ts'
import { finishSuccess } from '../../src/runs/success.ts'
import { removeLeftStages } from '../../src/scheduler/cleanup.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
const { db } = engine.services
let server: PostgresServer
let client: pg.Client
let database: string

before(async () => {
  server = await startPostgresServer()
  database = await server.createDatabase()
  client = await server.connect(database)
  await engine.work()
})
after(() => stopPostgresServer())

const into = (table: string) => {
  const { host, port, user, password } = server
  return { name: 'postgres', config: { host, port, user, password, database, tls: { mode: 'disable' }, table } }
}
const dummy = (records: number, more: object = {}) => ({
  name: 'dummy',
  stream: 'creatures',
  config: { records, ...more },
})
const count = async (table: string) => {
  const { rows } = await client.query(`SELECT count(*)::int AS rows, count(DISTINCT id)::int AS ids FROM ${table}`)
  assert.equal(rows[0].rows, rows[0].ids, 'no row is there twice')
  return rows[0].rows as number
}
const grow = async (id: string, records: number, table: string, sync: object) => {
  const config = { source: dummy(records), destination: into(table), sync }
  const answer = await engine.call('PUT', `/api/pipelines/${id}`, { as: engine.person, body: { config } })
  assert.equal(answer.status, 200, answer.text)
}
const run = async (id: string) => engine.finished(await engine.trigger(id))

const TABLES = ['runs', 'pipeline_state', 'pipeline_schemas'].map(raw)

/** Keeps everything that runs and their ends write; returns the restore. */
async function backUp(pipelineId: string): Promise<() => Promise<void>> {
  const { seq } = (await db.first<{ seq: number }>(sql`SELECT last_value AS seq FROM run_seq`))!
  const kept = await Promise.all(
    TABLES.map((table) =>
      db.query<{ row: object }>(sql`SELECT to_jsonb(t) AS row FROM ${table} t WHERE pipeline_id = ${pipelineId}`),
    ),
  )
  return async () => {
    for (const [at, table] of TABLES.entries()) {
      await db.execute(sql`DELETE FROM ${table} WHERE pipeline_id = ${pipelineId}`)
      for (const { row } of kept[at]!)
        await db.execute(
          sql`INSERT INTO ${table} SELECT * FROM jsonb_populate_record(NULL::${table}, ${JSON.stringify(row)}::jsonb)`,
        )
    }
    await db.execute(sql`SELECT setval('run_seq', ${seq})`)
  }
}

test('after a restore nothing is loaded by a run that is taken for another, and `sluice restored` lets it go on', async () => {
  const sync = { mode: 'incremental', write: 'append' }
  const id = await engine.createPipeline({ source: dummy(100), destination: into('incremental'), sync })
  assert.equal((await run(id)).status, 'success')
  const restore = await backUp(id)
  await grow(id, 150, 'incremental', sync)
  const lost = [await run(id), await run(id)]
  assert.equal(await count('incremental'), 150)
  await restore()
  await grow(id, 180, 'incremental', sync)
  for (const earlier of lost) {
    const fenced = await run(id)
    assert.equal(fenced.status, 'failed', 'it has the number of a run that was published, or a lower one')
    assert.match(
      fenced.error!,
      new RegExp(
        `^destination: This attempt was fenced: .* belongs to run ${lost[1]!.id} .* of this installation.*\`sluice restored\``,
      ),
    )
    assert.notEqual(fenced.id, earlier.id)
  }
  assert.equal(await count('incremental'), 150)
  const before = (await db.first<{ id: string }>(sql`SELECT id FROM installation`))!.id
  const { installation, unfinished } = await markRestored(db)
  assert.notEqual(installation, before)
  assert.equal(unfinished, 0)
  const next = await run(id)
  assert.equal(next.status, 'success', next.error ?? '')
  assert.equal(next.records_read, 30, 'it goes on from the mark, which has more than the restored state')
  assert.equal(await count('incremental'), 180)
  const log = await engine.logs(next.id)
  assert.match(log, /The destination has rows that no finished run accounts for; this run continues from its mark/)
  assert.match(log, new RegExp(`was last loaded by installation ${before}, and this is ${installation}`))
  assert.equal((await run(id)).records_read, 0)
})

for (const sync of [{ write: 'append' }, { write: 'replace' }, { mode: 'incremental', write: 'append' }])
  test(`a run that was under way at the time of the backup, and published after it, only ends: ${Object.values(sync).join(', ')}`, async () => {
    const table = `under_way_${Object.values(sync).join('_')}`
    const id = await engine.createPipeline({ source: dummy(250_000), destination: into(table), sync })
    const runId = await engine.trigger(id)
    await engine.until(runId, ({ checkpoint }) => checkpoint > 0)
    const restore = await backUp(id)
    assert.equal((await engine.finished(runId)).status, 'success')
    await restore()
    assert.equal((await engine.run(runId)).status, 'running')
    assert.equal((await markRestored(db)).unfinished, 1)
    const ended = await engine.finished(runId)
    assert.equal(ended.status, 'success', ended.error ?? '')
    assert.ok(ended.attempt > 1000)
    assert.equal(ended.output_file, null, 'its parts are not known any more')
    const log = await engine.logs(runId)
    assert.match(log, /restored from a backup taken while this run was in progress/)
    assert.match(log, /only finishing the run was left/)
    assert.match(log, /which our database does not know of.*no output file/)
    assert.equal(await count(table), 250_000)
  })

test('a run into a file that was under way at the time of the backup starts over and has a whole output', async () => {
  const id = await engine.createPipeline({
    source: dummy(250_000),
    destination: { name: 'file', config: { format: 'csv' } },
  })
  const runId = await engine.trigger(id)
  await engine.until(runId, ({ checkpoint }) => checkpoint > 0)
  const restore = await backUp(id)
  const download = async () =>
    (await engine.call('GET', `/api/pipelines/runs/${runId}/output`, { as: engine.person })).text
  assert.equal((await engine.finished(runId)).status, 'success')
  const whole = await download()
  await db.execute(sql`UPDATE runs SET finished_at = finished_at - interval '1 minute' WHERE id = ${runId}`)
  assert.ok((await removeLeftStages(engine.services)) > 0, 'parts that the backup still lists are gone')
  await restore()
  await markRestored(db)
  const again = await engine.finished(runId)
  assert.equal(again.status, 'success', again.error ?? '')
  assert.equal(again.records_read, 250_000)
  assert.ok((await download()) === whole)
})

test('runs that waited keep their order', async () => {
  const id = await engine.createPipeline({ source: dummy(1, { delay_ms: 200 }) })
  const ids = [await engine.trigger(id), await engine.trigger(id), await engine.trigger(id)]
  await markRestored(db)
  for (const runId of ids) assert.equal((await engine.finished(runId)).status, 'success')
  const rows = await db.query<{ id: string }>(sql`SELECT id FROM runs WHERE pipeline_id = ${id} ORDER BY seq`)
  assert.deepEqual(
    rows.map((row) => row.id),
    ids,
  )
})

test('of two workers that hold the same attempt the row knows one, and the other changes nothing', async () => {
  const person = await registerPerson(engine, 'Twice')
  const pipeline = await engine.createPipeline({}, person)
  // Not ready, so that the worker of this file leaves it alone.
  const run = (await db.first<RunLease>(sql`
    INSERT INTO runs (organization_id, pipeline_id, status, triggered_by, ready, attempt, worker, started_at)
    VALUES (${person.organization_id}, ${pipeline}, 'running', 'manual', true, 2, 'second', now())
    RETURNING id, organization_id, pipeline_id, seq, attempt, worker`))!
  const first = { ...run, worker: 'first' }
  const counts = { records_read: 1, records_written: 1, bytes_written: 1 }
  const ending = { outcome: { output: null, cursor: null, ...counts }, incremental: false as const, log: null }
  assert.equal(await saveCheckpoint(db, first, { checkpoint: 1, cursor: 1, parts: [], ...counts }), false)
  assert.equal(await finishFailed(db, first, { error: 'fenced', counts: null, log: null }), false)
  assert.equal(await finishSuccess(db, first, ending), false)
  assert.equal(await finishSuccess(db, run, ending), true)
})
