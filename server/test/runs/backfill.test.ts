/** A back-fill: a range of the cursor is read again and upserted, and the state of the pipeline stays as it is. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { sql } from '../../src/database/database.ts'
import { scheduleDuePipelines } from '../../src/scheduler/due-pipelines.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'
import { executorsOf } from '../harness/executors.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8', RUN_CHECKPOINT_MS: '200' })
const { db } = engine.services
let server: PostgresServer
let client: pg.Client
let database: string

before(async () => {
  server = await startPostgresServer()
  database = await server.createDatabase()
  client = await server.connect(database)
  await client.query(`
    CREATE TABLE orders (id int8 PRIMARY KEY, price int8, day date, updated_at timestamptz);
    INSERT INTO orders SELECT g, g, date '2024-01-01' + g / 10, timestamptz '2024-01-01 00:00Z' + g / 10 * interval '1 day' FROM generate_series(0, 99) g;
    INSERT INTO orders VALUES (1000, 1000, NULL, NULL)`)
  await engine.work()
})
after(() => stopPostgresServer())

const settings = (more: object = {}) => {
  const { host, port, user, password } = server
  return { host, port, user, password, database, tls: { mode: 'disable' }, ...more }
}
const upsert = { mode: 'incremental', cursor_field: 'updated_at', write: 'upsert', primary_key: ['id'] }
const pipelineInto = (table: string, sync: object = {}, more: object = {}) =>
  engine.createPipeline({
    source: { name: 'postgres', stream: 'public.orders', config: settings() },
    destination: { name: 'postgres', config: settings({ schema: 'target', table }) },
    sync: { ...upsert, ...sync },
    ...more,
  })
const runOf = async (pipeline: string) => {
  const run = await engine.finished(await engine.trigger(pipeline))
  assert.equal(run.status, 'success', run.error ?? '')
  return run
}
const backfill = (pipeline: string, body: object, as = engine.person) =>
  engine.call('POST', `/api/pipelines/${pipeline}/backfill`, { as, body })
const filled = async (pipeline: string, body: object) => {
  const answer = await backfill(pipeline, body)
  assert.equal(answer.status, 201, answer.text)
  const run = await engine.finished(answer.body.id)
  assert.equal(run.status, 'success', run.error ?? '')
  return run
}
const state = async (pipeline: string) =>
  (await engine.call('GET', `/api/pipelines/${pipeline}/state`, { as: engine.person })).body
/** The ids whose price is the new one. */
const changed = async (table: string) =>
  (await client.query(`SELECT id::int4 AS id FROM target.${table} WHERE price < 0 ORDER BY id`)).rows.map(
    ({ id }) => id as number,
  )
const count = async (table: string) =>
  Number((await client.query(`SELECT count(*) FROM target.${table}`)).rows[0].count)
const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at)

test('records from the start of the range up to its end are read again, and the next run continues as before', async () => {
  const pipeline = await pipelineInto('plain')
  assert.equal((await runOf(pipeline)).records_read, 101)
  const kept = await state(pipeline)
  await client.query('UPDATE orders SET price = -id WHERE id > 0')
  const answer = await backfill(pipeline, { from: '2024-01-03', to: '2024-01-05T00:00:00Z' })
  assert.equal(answer.status, 201, answer.text)
  assert.deepEqual([answer.body.triggered_by, answer.body.status], ['backfill', 'pending'])
  const run = await engine.finished(answer.body.id)
  assert.equal(run.status, 'success', run.error ?? '')
  assert.equal(run.records_read, 20, 'all ten records at the start, none of the ten at the end')
  assert.deepEqual(await changed('plain'), numbers(20, 40))
  assert.equal(await count('plain'), 101, 'nothing is there twice')
  assert.deepEqual(await state(pipeline), kept, 'the state is untouched')
  assert.match(await engine.logs(run.id), /a range of updated_at, from 2024-01-03 up to but without 2024-01-05T/)
  const used = await engine.call('GET', `/api/pipelines/runs/${run.id}/config`, { as: engine.person })
  assert.deepEqual(used.body.config.range, { from: '2024-01-03', to: '2024-01-05T00:00:00Z' })
  await client.query(`INSERT INTO orders VALUES (100, 100, '2024-02-01', '2024-02-01 00:00Z')`)
  const next = await runOf(pipeline)
  assert.equal(next.records_read, 11, 'the new record, and those of the last value, which are merged')
  await client.query(`DELETE FROM orders WHERE id = 100; UPDATE orders SET price = id`)
})

test('neighbouring ranges read every record with a value once, and none without', async () => {
  const pipeline = await pipelineInto('parts', { cursor_field: 'day' })
  const bounds = ['2023-01-01', '2024-01-01', '2024-01-04', '2024-01-10', '2025-01-01']
  let read = 0
  for (const [at, from] of bounds.slice(0, -1).entries())
    read += (await filled(pipeline, { from, to: bounds[at + 1] })).records_read
  assert.equal(read, 100)
  assert.equal(await count('parts'), 100)
  assert.equal((await state(pipeline)).cursor, null)
  assert.equal((await runOf(pipeline)).records_read, 101, 'the first run reads everything all the same')
})

test('numbers are given as numbers or as text', async () => {
  const pipeline = await pipelineInto('numbers', { cursor_field: 'id' })
  assert.equal((await filled(pipeline, { from: 9, to: 11 })).records_read, 2)
  assert.equal((await filled(pipeline, { from: '9', to: '11' })).records_read, 2)
  assert.equal((await filled(pipeline, { from: 5000, to: 6000 })).records_read, 0)
})

test('a value that the column cannot have fails the run with a reason, and leaves the state alone', async () => {
  const pipeline = await pipelineInto('wrong')
  const answer = await backfill(pipeline, { from: "x' OR true --", to: 'z' })
  assert.equal(answer.status, 201)
  const run = await engine.finished(answer.body.id)
  assert.equal(run.status, 'failed')
  assert.match(run.error!, /invalid input syntax for type timestamp with time zone/)
  assert.deepEqual((await state(pipeline)).cursor, null)
})

test('what cannot be back-filled is refused in a sentence', async () => {
  const refused = async (
    sketch: Parameters<typeof engine.createPipeline>[0],
    sentence: RegExp,
    body = { from: 1, to: 2 },
  ) => {
    const answer = await backfill(await engine.createPipeline(sketch), body)
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.body.detail, sentence)
  }
  const into = { destination: { name: 'sqlite', config: { table: 'rows' } } }
  const sync = { mode: 'incremental', write: 'upsert', primary_key: ['id'] }
  await refused({}, /needs config\.sync\.mode incremental/)
  await refused({ sync: { mode: 'incremental' } }, /needs config\.sync\.write upsert/)
  await refused(
    {
      source: { name: 's3', stream: 'shop', config: { bucket: 'exports', access_key_id: 'k', secret_access_key: 's' } },
      ...into,
      sync,
    },
    /^s3 cannot be read by a range of its cursor/,
  )
  await refused({ ...into, sync }, /A range of the dummy source has positions/, { from: -1, to: 2 })
  const client = { base_url: 'https://api.example' }
  const resources = [
    { name: 'rows', endpoint: { path: 'rows', incremental: { cursor_path: 'id', start_param: 'since' } } },
  ]
  const rest = { source: { name: 'rest_api', stream: 'rows', config: { client, resources } }, ...into, sync }
  for (const from of ['../admin', 'a/b', '1&admin=1', '2024\r\nHost: x', 'x'.repeat(201), ''])
    await refused(rest, /^(A range of rest_api has numbers, or texts|from: )/, { from, to: 'z' } as never)
  // As saving it leaves it; its code is not run.
  await db.execute(sql`
    WITH own AS (INSERT INTO custom_sources (organization_id, name, source_name) VALUES (${engine.person.organization_id}, 'Own', 'own') RETURNING id)
    INSERT INTO custom_source_versions (custom_source_id, version, code, streams) SELECT id, 1, 'self.state', '["rows"]' FROM own`)
  await refused(
    { source: { name: 'own', stream: 'rows' }, ...into, sync },
    /^own is a custom source, whose code alone knows/,
  )
  assert.equal(
    Number((await db.first<{ n: number }>(sql`SELECT count(*)::int AS n FROM runs WHERE status = 'pending'`))!.n),
    0,
  )
})

test('a range without a beginning before its end, or of two kinds, is refused', async () => {
  const pipeline = await pipelineInto('bounds')
  for (const body of [
    { from: 2, to: 2 },
    { from: 3, to: 2 },
    { from: '2024-02-01', to: '2024-01-31T23:59:59Z' },
    { from: 'same', to: 'same' },
    { from: 1, to: '2' },
    { from: '', to: 'a' },
    { from: 1 },
    { from: 1, to: 2, also: 3 },
    { from: null, to: 2 },
    { from: 'a'.repeat(2000), to: 'b' },
  ]) {
    const answer = await backfill(pipeline, body)
    assert.equal(answer.status, 400, JSON.stringify(body))
  }
  const stranger = await registerPerson(engine, 'Stranger')
  assert.equal((await backfill(pipeline, { from: 1, to: 2 }, stranger)).status, 404)
})

test('a schedule waits while a back-fill runs, and the run after it is a usual one', async () => {
  const slow = { name: 'dummy', stream: 'creatures', config: { records: 40, delay_ms: 100 } }
  const pipeline = await engine.createPipeline({
    source: slow,
    destination: { name: 'postgres', config: settings({ schema: 'target', table: 'creatures' }) },
    sync: { mode: 'incremental', write: 'upsert', primary_key: ['id'] },
  })
  const answer = await backfill(pipeline, { from: 10, to: 30 })
  assert.equal(answer.status, 201, answer.text)
  await engine.call('PUT', `/api/pipelines/${pipeline}`, { as: engine.person, body: { schedule: '* * * * *' } })
  await engine.until(answer.body.id, ({ status }) => status === 'running')
  await db.execute(sql`UPDATE pipelines SET next_run_at = now() - interval '1 minute' WHERE id = ${pipeline}`)
  const { box, log } = engine.services
  await scheduleDuePipelines(db, box, log)
  const runs = await engine.call('GET', `/api/pipelines/${pipeline}/runs`, { as: engine.person })
  assert.deepEqual(
    runs.body.map(({ triggered_by }: { triggered_by: string }) => triggered_by),
    ['backfill'],
  )
  const run = await engine.finished(answer.body.id)
  assert.deepEqual([run.status, run.records_read], ['success', 20])
})

test('a back-fill whose executor is killed goes on after its last checkpoint and loads nothing twice', async () => {
  const pipeline = await engine.createPipeline({
    source: { name: 'dummy', stream: 'creatures', config: { records: 200, delay_ms: 20 } },
    destination: { name: 'postgres', config: settings({ schema: 'target', table: 'killed' }) },
    sync: { mode: 'incremental', write: 'upsert', primary_key: ['id'] },
    run: { max_attempts: 5, backoff_seconds: 1 },
  })
  const answer = await backfill(pipeline, { from: 50, to: 150 })
  await engine.until(answer.body.id, ({ checkpoint }) => checkpoint > 1)
  for (const pid of executorsOf(process.pid)) process.kill(pid, 'SIGKILL')
  const run = await engine.finished(answer.body.id)
  assert.equal(run.status, 'success', run.error ?? '')
  assert.match(await engine.logs(run.id), /Resuming after checkpoint \d+, with \d+ records already loaded/)
  const { rows } = await client.query(
    'SELECT min(id)::int4 AS least, max(id)::int4 AS most, count(*)::int4 AS all FROM target.killed',
  )
  assert.deepEqual(rows[0], { least: 51, most: 150, all: 100 })
  assert.equal((await state(pipeline)).cursor, null)
})
