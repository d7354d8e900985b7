/** A replay: the kept output of a run is loaded again without asking the source, and the state of the pipeline stays as it is. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type pg from 'pg'
import { sql } from '../../src/database/database.ts'
import { registerOrganization } from '../harness/app.ts'
import { type Run, startEngine } from '../harness/engine.ts'
import { executorsOf } from '../harness/executors.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8', RUN_CHECKPOINT_MS: '200' })
const { call, person } = engine
let server: PostgresServer
let client: pg.Client
let database: string

before(async () => {
  server = await startPostgresServer()
  database = await server.createDatabase()
  client = await server.connect(database)
  await client.query(`
    CREATE TYPE mood AS ENUM ('calm', 'wild');
    CREATE TABLE orders (id int8 PRIMARY KEY, key uuid NOT NULL, price numeric(12, 2), mood mood, tags text[], at timestamptz, updated_at timestamptz);
    INSERT INTO orders SELECT g, gen_random_uuid(), g + 0.10, 'wild', ARRAY['a,b', NULL, '"'], now(), timestamptz '2024-01-01 00:00Z' + g * interval '1 hour' FROM generate_series(1, 1000) g`)
  await engine.work()
})
after(() => stopPostgresServer())

const settings = (more: object = {}) => {
  const { host, port, user, password } = server
  return { host, port, user, password, database, tls: { mode: 'disable' }, ...more }
}
const into = (table: string) => ({ name: 'postgres', config: settings({ schema: 'target', table }) })
const orders = (table: string, sync: object, more: object = {}) =>
  engine.createPipeline({
    source: { name: 'postgres', stream: 'public.orders', config: settings() },
    destination: into(table),
    sync,
    ...more,
  })
const ended = async (id: string): Promise<Run> => {
  const run = await engine.finished(id)
  assert.equal(run.status, 'success', `${run.error}\n${await engine.logs(id)}`)
  return run
}
const runOf = async (pipeline: string) => ended(await engine.trigger(pipeline))
const replay = (run: string, body?: object, as = person) =>
  call('POST', `/api/pipelines/runs/${run}/replay`, { as, ...(body && { body }) })
async function replayed(run: string, body?: object): Promise<Run> {
  const answer = await replay(run, body)
  assert.equal(answer.status, 201, answer.text)
  assert.deepEqual([answer.body.triggered_by, answer.body.status], ['replay', 'pending'])
  return ended(answer.body.id)
}
const rowsOf = async (table: string) =>
  (await client.query(`SELECT to_jsonb(t)::text AS row FROM ${table} t ORDER BY id`)).rows.map(
    ({ row }) => row as string,
  )
const typesOf = async (table: string) =>
  (
    await client.query(
      `SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '${table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    )
  ).rows
const state = async (pipeline: string) => (await call('GET', `/api/pipelines/${pipeline}/state`, { as: person })).body
const upsert = { mode: 'incremental', cursor_field: 'updated_at', write: 'upsert', primary_key: ['id'] }

test('a table that was damaged is what the run left again: the same rows, in columns of the same types', async () => {
  const pipeline = await orders('whole', { write: 'replace' })
  const run = await runOf(pipeline)
  const [rows, types] = [await rowsOf('target.whole'), await typesOf('target.whole')]
  assert.equal(rows.length, 1000)
  await client.query(`DELETE FROM target.whole WHERE id > 10; UPDATE target.whole SET price = 0`)
  await client.query('ALTER TABLE orders RENAME TO hidden')
  try {
    const again = await replayed(run.id)
    assert.equal(again.records_read, 1000)
    assert.match(await engine.logs(again.id), /Reading an earlier run of public\.orders/)
  } finally {
    await client.query('ALTER TABLE hidden RENAME TO orders')
  }
  assert.deepEqual(await rowsOf('target.whole'), rows)
  assert.deepEqual(await typesOf('target.whole'), types)
})

test('an incremental pipeline merges what one of its runs read, and continues from where it was', async () => {
  const pipeline = await orders('merged', upsert)
  const first = await runOf(pipeline)
  const kept = await state(pipeline)
  const columns = await call('GET', `/api/pipelines/${pipeline}/schema`, { as: person })
  await client.query(`DELETE FROM target.merged WHERE id % 2 = 0; UPDATE target.merged SET price = -1 WHERE id < 10`)
  await replayed(first.id)
  assert.deepEqual((await client.query('SELECT count(*)::int AS n, min(price)::text FROM target.merged')).rows, [
    { n: 1000, min: '1.10' },
  ])
  assert.deepEqual(await state(pipeline), kept, 'the state is untouched')
  assert.deepEqual((await call('GET', `/api/pipelines/${pipeline}/schema`, { as: person })).body, columns.body)
  assert.ok((await runOf(pipeline)).records_read < 10, 'the next run reads only what is new')
})

test('append adds the records once more, also where that is the default', async () => {
  const pipeline = await orders('added', { mode: 'incremental', cursor_field: 'updated_at' })
  const run = await runOf(pipeline)
  await replayed(run.id)
  assert.equal((await rowsOf('target.added')).length, 2000, 'nothing was replaced')
})

test('another destination gets the records, and the own one and its file stay as they are', async () => {
  const source = { name: 'dummy', stream: 'creatures', config: { records: 50 } }
  const sqlite = { name: 'sqlite', config: { table: 'creatures' } }
  const pipeline = await engine.createPipeline({ source, destination: { name: 'file', config: { format: 'csv' } } })
  const run = await runOf(pipeline)
  await replayed(run.id, { destination: into('creatures') })
  assert.equal((await client.query('SELECT count(*)::int AS n FROM target.creatures')).rows[0].n, 50)
  assert.match((await replayed(run.id, { destination: sqlite })).output_file ?? '', /\.sqlite$/)
  assert.match((await replayed(run.id)).output_file ?? '', /\.csv$/, 'its own is still the file')

  const grows = await engine.createPipeline({ source, destination: sqlite, sync: { write: 'append' } })
  await runOf(grows)
  const whole = await replay((await runOf(grows)).id)
  assert.equal(whole.status, 409)
  assert.match(whole.body.detail, /whole sqlite database.*make a pipeline with the source sqlite/)
})

test('a replay whose executor is killed while it loads adds each record once', async () => {
  const pipeline = await orders('killed', { write: 'append' }, { run: { max_attempts: 5, backoff_seconds: 1 } })
  const run = await runOf(pipeline)
  await client.query(`
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.002); RETURN NEW; END';
    CREATE TRIGGER dawdle BEFORE INSERT ON target.killed FOR EACH ROW EXECUTE FUNCTION dawdle()`)
  const answer = await replay(run.id)
  const loads = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
  while ((await client.query(loads)).rowCount === 0) await setTimeout(10)
  for (const pid of executorsOf(process.pid)) process.kill(pid, 'SIGKILL')
  const again = await ended(answer.body.id)
  assert.ok(again.attempt > 1, 'it was killed in the middle')
  assert.equal(again.records_read, 1000)
  assert.deepEqual(
    (await client.query('SELECT count(*)::int AS n, count(DISTINCT id)::int AS ids FROM target.killed')).rows,
    [{ n: 2000, ids: 1000 }],
  )
})

test('a replay elsewhere is not what a database file goes on from', async () => {
  const source = { name: 'dummy', stream: 'creatures', config: { records: 5 } }
  const file = { name: 'file', config: {} }
  const pipeline = await engine.createPipeline({ source, destination: file })
  const lines = await runOf(pipeline)
  const sqlite = { name: 'sqlite', config: { table: 'creatures' } }
  const put = await call('PUT', `/api/pipelines/${pipeline}`, {
    as: person,
    body: { config: { source, destination: sqlite, sync: { write: 'append' } } },
  })
  assert.equal(put.status, 200, put.text)
  const before = await runOf(pipeline)
  await replayed(lines.id, { destination: file })
  const next = await runOf(pipeline)
  const sizes = await engine.services.db.query<{ output_file_size: string }>(
    sql`SELECT r.output_file_size FROM runs r WHERE r.id IN (${before.id}, ${next.id}) ORDER BY seq`,
  )
  assert.equal(sizes.length, 2)
  const sample = await call('POST', `/api/pipelines`, {
    as: person,
    body: {
      name: 'count',
      config: {
        source: { name: 'sqlite', stream: 'creatures', config: { run_id: next.id } },
        destination: file,
      },
    },
  })
  assert.equal(sample.status, 201, sample.text)
  assert.equal((await runOf(sample.body.id)).records_read, 10, 'the rows of both runs')
})

test('columns were chosen before, and are not chosen again', async () => {
  const pipeline = await engine.createPipeline({
    source: { name: 'dummy', stream: 'creatures', config: { records: 3 } },
    destination: into('renamed'),
    columns: { include: ['id', 'name'], rename: { id: 'number', name: 'called' }, hash: ['called'] },
  })
  const run = await runOf(pipeline)
  const rows = (await client.query('SELECT * FROM target.renamed ORDER BY 1')).rows
  assert.equal(rows.length, 3)
  await client.query('DELETE FROM target.renamed')
  await replayed(run.id)
  assert.deepEqual((await client.query('SELECT * FROM target.renamed ORDER BY 1')).rows, rows)
})

test('what has no kept output is refused: pending, failed, not kept, expired', async () => {
  const refused = async (run: string, reason: RegExp) => {
    const answer = await replay(run)
    assert.equal(answer.status, 409, answer.text)
    assert.match(answer.body.detail, reason)
  }
  const failing = await engine.finished(await engine.trigger(await engine.createPipeline({ dummy: { fail_after: 3 } })))
  await refused(failing.id, /did not succeed/)
  const unkept = await runOf(await orders('unkept', {}, { run: { keep_output: false } }))
  await refused(unkept.id, /kept none/)
  const run = await runOf(await engine.createPipeline({ dummy: { records: 3 } }))
  await engine.services.db.execute(sql`UPDATE runs SET output_file = NULL, output_parts = NULL WHERE id = ${run.id}`)
  await refused(run.id, /has expired/)
  assert.equal((await replay('00000000-0000-4000-8000-000000000000')).status, 404)
})

test('an output that expires while the replay waits fails it with a reason', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 3 } })
  const run = await runOf(pipeline)
  const source = { name: 'dummy', stream: 'creatures', config: { records: 3, delay_ms: 3_600_000 } }
  const slow = { source, destination: { name: 'file', config: {} } }
  await call('PUT', `/api/pipelines/${pipeline}`, { as: person, body: { config: slow } })
  const blocking = await engine.trigger(pipeline)
  const answer = await replay(run.id)
  assert.equal(answer.status, 201)
  await engine.services.db.execute(sql`UPDATE runs SET output_file = NULL, output_parts = NULL WHERE id = ${run.id}`)
  await call('POST', `/api/pipelines/runs/${blocking}/cancel`, { as: person })
  const { status, error } = await engine.finished(answer.body.id)
  assert.equal(status, 'failed')
  assert.match(error!, /has no readable output/)
})

test('a destination is checked as that of a pipeline is, and no mask stands for a secret', async () => {
  const run = await runOf(await engine.createPipeline({ dummy: { records: 3 } }))
  const refused = async (destination: unknown, reason: RegExp) => {
    const answer = await replay(run.id, { destination } as object)
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.body.detail, reason)
  }
  await refused({ name: 'nothing', config: {} }, /destination\.name/)
  await refused({ name: 'postgres', config: { host: 'x' } }, /destination\.config/)
  await refused(
    { name: 'postgres', config: settings({ table: 'x', password: '********' }) },
    /destination\.config\.password/,
  )
  await refused({ saved_connector_id: '00000000-0000-4000-8000-000000000000' }, /destination/)
  await refused('postgres', /destination/)
  assert.equal((await replay(run.id, { source: {} })).status, 400)
})

test('who may only run replays into the own destination, and nobody else into any', async () => {
  const people = await registerOrganization(engine)
  const pipeline = await engine.createPipeline({ dummy: { records: 3 } }, people.owner)
  const run = await ended(await engine.trigger(pipeline, people.owner))
  const destination = { name: 'logger', config: {} }
  assert.equal((await replay(run.id)).status, 404, 'another organization')
  assert.equal((await replay(run.id, { destination }, people.viewer)).status, 403)
  const made = await call('POST', '/api/api-keys', {
    as: people.owner,
    body: { name: 'runs', scopes: { permissions: ['pipelines:run'] } },
  })
  assert.equal(made.status, 201, made.text)
  const withKey = (payload: object) =>
    engine.app.inject({
      method: 'POST',
      url: `/api/pipelines/runs/${run.id}/replay`,
      headers: { 'X-API-Key': made.body.key },
      payload,
    })
  assert.equal((await withKey({ destination })).statusCode, 403)
  assert.equal((await withKey({})).statusCode, 201)
})
