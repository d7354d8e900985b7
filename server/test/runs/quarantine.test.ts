/** The quarantine of a run as its owner sees it: counted, read, sent again, and removed like an output. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { sql } from '../../src/database/database.ts'
import { expireOutputs, removeLeftStages } from '../../src/scheduler/cleanup.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
const { db, blobs } = engine.services
let server: PostgresServer
let client: pg.Client
let database: string

before(async () => {
  server = await startPostgresServer()
  database = await server.createDatabase()
  client = await server.connect(database)
  await client.query('CREATE TABLE numbers (id int8 PRIMARY KEY, v int8)')
  await client.query('INSERT INTO numbers SELECT g, g % 7 FROM generate_series(1, 40) g')
  await engine.work()
})
after(() => stopPostgresServer())

const settings = (more: object = {}) => {
  const { host, port, user, password } = server
  return { host, port, user, password, database, tls: { mode: 'disable' }, ...more }
}
/** The numbers into a table that refuses those with the value 3, of which there are six. */
async function pipelineInto(table: string, sync: object = {}, more: object = {}): Promise<string> {
  await client.query(`CREATE TABLE ${table} (id int8 PRIMARY KEY, v int8 CONSTRAINT ${table}_v CHECK (v <> 3))`)
  return engine.createPipeline({
    source: { name: 'postgres', stream: 'public.numbers', config: settings() },
    destination: { name: 'postgres', config: settings({ table }) },
    sync: { write: 'append', on_error: 'quarantine', max_error_share: 0.5, ...sync },
    ...more,
  })
}
const runOf = async (pipeline: string) => engine.finished(await engine.trigger(pipeline))
const get = (path: string, as = engine.person) => engine.call('GET', `/api/pipelines/runs/${path}`, { as })
const linesOf = async (run: string) =>
  (await get(`${run}/quarantine`)).text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { record: { id: number; v: number }; reason: string })
const idsOf = async (table: string) =>
  (await client.query(`SELECT id::int4 AS id FROM ${table} ORDER BY id`)).rows.map(({ id }) => id as number)
const storedBytes = async () =>
  (await db.first<{ stored_bytes: number }>(sql`SELECT stored_bytes FROM organization_storage`))?.stored_bytes ?? 0

test('what the destination refuses is counted, can be read, and warned of once', async () => {
  const pipeline = await pipelineInto('plain')
  const run = await runOf(pipeline)
  assert.equal(run.status, 'success', run.error ?? '')
  const shown = (await get(run.id)).body
  assert.deepEqual([shown.records_read, shown.records_written, shown.records_quarantined], [40, 34, 6])
  const lines = await linesOf(run.id)
  assert.deepEqual(
    lines.map(({ record }) => record),
    [3, 10, 17, 24, 31, 38].map((id) => ({ id, v: 3 })),
  )
  assert.match(lines[0]!.reason, /violates check constraint "plain_v".*SQLSTATE 23514/)
  assert.equal((await idsOf('plain')).length, 34)
  const answer = await engine.app.inject({
    url: `/api/pipelines/runs/${run.id}/quarantine`,
    headers: { authorization: `Bearer ${engine.person.access_token}` },
  })
  assert.equal(answer.headers['content-type'], 'application/x-ndjson')
  const warnings = (await engine.logs(run.id)).split('\n').filter((line: string) => line.includes('refused 6 records'))
  assert.equal(warnings.length, 1)
})

test('a run without refused records, of another organization or still running has none', async () => {
  const pipeline = await pipelineInto('clean', {}, { columns: { include: ['id'] } })
  const run = await runOf(pipeline)
  assert.equal((await get(`${run.id}/quarantine`)).status, 404)
  assert.equal(
    (await engine.call('POST', `/api/pipelines/runs/${run.id}/quarantine/resend`, { as: engine.person })).status,
    404,
  )
  const refused = await runOf(await pipelineInto('hidden'))
  const stranger = await registerPerson(engine, 'Stranger')
  assert.equal((await get(`${refused.id}/quarantine`, stranger)).status, 404)
  await db.execute(
    sql`UPDATE runs SET status = 'running', finished_at = NULL, output_file = NULL WHERE id = ${refused.id}`,
  )
  assert.match((await get(`${refused.id}/quarantine`)).body.detail, /no quarantine yet: it is running/)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = ${refused.id}`)
})

test('too large a share fails the run, and its quarantine can be read and sent again', async () => {
  const pipeline = await pipelineInto('few', { max_error_share: 0.1 })
  const run = await runOf(pipeline)
  assert.equal(run.status, 'failed')
  assert.match(
    run.error!,
    /^destination: The destination refused 6 of 40 records, more than config\.sync\.max_error_share/,
  )
  assert.deepEqual(await idsOf('few'), [])
  assert.equal((await linesOf(run.id)).length, 6)
})

test('the quarantine is sent again into the same destination, exactly once, and leaves the state alone', async () => {
  const pipeline = await pipelineInto('mended', { mode: 'incremental', cursor_field: 'id' })
  const run = await runOf(pipeline)
  const state = async () => (await engine.call('GET', `/api/pipelines/${pipeline}/state`, { as: engine.person })).body
  const before = await state()
  await client.query('ALTER TABLE mended DROP CONSTRAINT mended_v, ADD CHECK (id <> 17)')
  const resend = () => engine.call('POST', `/api/pipelines/runs/${run.id}/quarantine/resend`, { as: engine.person })
  const sent = await resend()
  assert.equal(sent.status, 201, sent.text)
  assert.equal(sent.body.triggered_by, 'resend')
  const again = await engine.finished(sent.body.id)
  assert.equal(again.status, 'success', again.error ?? '')
  assert.equal((await idsOf('mended')).length, 39)
  const left = await linesOf(again.id)
  assert.deepEqual(
    left.map(({ record }) => record.id),
    [17],
  )
  assert.deepEqual(await state(), before)
  assert.deepEqual((await get(`${again.id}/config`)).body.config.resends, run.id)
  await client.query('INSERT INTO numbers VALUES (41, 1)')
  const next = await runOf(pipeline)
  assert.equal(next.records_read, 1, 'the next run goes on from where the one before was')
  assert.equal((await idsOf('mended')).length, 40)
  await client.query('DELETE FROM numbers WHERE id = 41')
})

test('a quarantine counts as stored, survives cleanup and expires like an output, also without one', async () => {
  const pipeline = await pipelineInto(
    'stored',
    { write: 'upsert', primary_key: ['id'] },
    { run: { keep_output: false } },
  )
  const before = await storedBytes()
  const run = await runOf(pipeline)
  const stored = (await storedBytes()) - before
  assert.ok(stored > 0, `${stored} bytes`)
  await db.execute(
    sql`UPDATE runs SET stage_left = true, finished_at = now() - interval '40 days' WHERE id = ${run.id}`,
  )
  await removeLeftStages({ db, blobs, log: engine.services.log })
  assert.equal((await linesOf(run.id)).length, 6)
  await runOf(pipeline)
  await db.execute(sql`UPDATE runs SET log_key = 'packed' WHERE id = ${run.id}`)
  await expireOutputs({ db, blobs, log: engine.services.log }, 30)
  assert.equal((await get(`${run.id}/quarantine`)).status, 404)
  assert.equal((await get(run.id)).body.records_quarantined, 6)
  await engine.call('DELETE', `/api/pipelines/${pipeline}`, { as: engine.person })
  assert.equal((await storedBytes()) - before, 0)
})
