/** A cursor belongs to one source, stream, cursor field and destination. A pipeline that was changed starts over. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { sql } from '../../src/database/database.ts'
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
  await client.query(`
    CREATE SCHEMA source;
    CREATE TABLE source.a (id int8 PRIMARY KEY, other int8);
    CREATE TABLE source.b (id int8 PRIMARY KEY, other int8);
    INSERT INTO source.a SELECT g, 100 - g FROM generate_series(1, 20) g;
    INSERT INTO source.b SELECT g, 100 - g FROM generate_series(1, 15) g`)
  await engine.work()
})
after(() => stopPostgresServer())

const settings = (more: object = {}) => {
  const { host, port, user, password } = server
  return { host, port, user, password, database, tls: { mode: 'disable' }, ...more }
}
interface Sketch {
  stream?: string
  source?: Record<string, unknown>
  table?: string
  sync?: object
}
const config = ({ stream = 'source.a', source, table = 'loaded', sync = {} }: Sketch = {}) => ({
  source: source ?? { name: 'postgres', stream, config: settings() },
  destination: { name: 'postgres', config: settings({ schema: 'target', table }) },
  sync: { mode: 'incremental', cursor_field: 'id', write: 'append', ...sync },
})
const put = async (id: string, sketch: Sketch, more: object = {}) => {
  const answer = await engine.call('PUT', `/api/pipelines/${id}`, {
    as: engine.person,
    body: { config: config(sketch), ...more },
  })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as { notice?: string }
}
const run = async (id: string) => {
  const runId = await engine.trigger(id)
  const ended = await engine.finished(runId)
  assert.equal(ended.status, 'success', ended.error ?? '')
  return { read: ended.records_read, log: await engine.logs(runId) }
}
const rows = async (table: string) => Number((await client.query(`SELECT count(*) FROM target.${table}`)).rows[0].count)
const state = async (id: string) =>
  (await engine.call('GET', `/api/pipelines/${id}/state`, { as: engine.person })).body.cursor
const save = async (type: 'sources' | 'destinations', connector: object) => {
  const body = { name: 'saved', connector_name: 'postgres', config: connector, description: '' }
  return (await engine.call('POST', `/api/saved/${type}`, { as: engine.person, body })).body.id as string
}

test('another stream into the same table: everything is read, and log and answer warn about duplicated rows', async () => {
  const id = await engine.createPipeline(config({ table: 'streams' }))
  assert.equal((await run(id)).read, 20)
  const again = await run(id)
  assert.equal(again.read, 0)
  assert.doesNotMatch(again.log, /starts over/)
  const { notice } = await put(id, { stream: 'source.b', table: 'streams' })
  assert.match(notice!, /^The stream changed, so the next run starts from the beginning\. .*will be duplicated/)
  assert.equal(await state(id), null)
  const changed = await run(id)
  assert.equal(changed.read, 15)
  assert.match(changed.log, /INFO +The stream changed since the last run, so this run starts over/)
  assert.match(changed.log, /WARN +It appends to the same target, so rows .* will be duplicated/)
  assert.equal(await rows('streams'), 35)
  assert.equal((await run(id)).read, 0, 'from there on it goes on as usual')
})

test('another cursor field starts over, and an upsert says that nothing is duplicated', async () => {
  const upsert = { write: 'upsert', primary_key: ['id'] }
  const id = await engine.createPipeline(config({ table: 'fields', sync: upsert }))
  await run(id)
  const { notice } = await put(id, { table: 'fields', sync: { ...upsert, cursor_field: 'other' } })
  assert.match(notice!, /^The cursor field changed, .*none will be duplicated/)
  const changed = await run(id)
  assert.equal(changed.read, 20)
  assert.match(changed.log, /The cursor field changed since/)
  assert.doesNotMatch(changed.log, /WARN/)
  assert.equal(await rows('fields'), 20)
})

test('another destination gets everything, without a warning about duplicated rows', async () => {
  const id = await engine.createPipeline(config({ table: 'first' }))
  await run(id)
  const { notice } = await put(id, { table: 'second' })
  assert.equal(notice, 'The destination changed, so the next run starts from the beginning.')
  const changed = await run(id)
  assert.match(changed.log, /The destination changed since/)
  assert.doesNotMatch(changed.log, /twice/)
  assert.equal(await rows('second'), 20)
  const schema = await engine.call('GET', `/api/pipelines/${id}/schema`, { as: engine.person })
  assert.deepEqual(
    schema.body.columns.map((column: { name: string }) => column.name),
    ['id', 'other'],
  )
})

test('what does not change the data has no effect: names, schedules, credentials, a saved connector for the same place', async () => {
  const id = await engine.createPipeline(config({ table: 'same' }))
  await run(id)
  const plain = await engine.call('PUT', `/api/pipelines/${id}`, { as: engine.person, body: { name: 'Another' } })
  assert.ok(!('notice' in plain.body))
  const { host, port, user, password } = server
  const url = `postgres://${user}:${password}@${host}:${port}/${database}?sslmode=disable`
  const saved = await save('sources', { config: { url } })
  const answer = await put(id, { source: { saved_connector_id: saved, stream: 'source.a' }, table: 'same' })
  assert.ok(!('notice' in answer))
  const next = await run(id)
  assert.equal(next.read, 0)
  assert.doesNotMatch(next.log, /starts over/)
})

test('a saved connector that points elsewhere is noticed by the next run, although the pipeline was not changed', async () => {
  const other = await server.createDatabase()
  const there = await server.connect(other)
  await there.query('CREATE SCHEMA source; CREATE TABLE source.a AS SELECT g::int8 AS id FROM generate_series(1, 7) g')
  const saved = await save('sources', { config: settings() })
  const sketch = { source: { saved_connector_id: saved, stream: 'source.a' }, table: 'saved' }
  const id = await engine.createPipeline(config(sketch))
  assert.equal((await run(id)).read, 20)
  const changed = await engine.call('PUT', `/api/saved/sources/${saved}`, {
    as: engine.person,
    body: { config: { config: settings({ database: other }) } },
  })
  assert.equal(changed.status, 200, changed.text)
  assert.equal(await state(id), null)
  const next = await run(id)
  assert.equal(next.read, 7)
  assert.match(next.log, /The source changed since the last run/)
})

test('a run in progress while the pipeline is changed leaves no state for the changed one', async () => {
  const slow = (stream: string) => ({ name: 'dummy', stream, config: { records: 200, delay_ms: 5 } })
  const quick = (stream: string) => ({ name: 'dummy', stream, config: { records: 200 } })
  const id = await engine.createPipeline(
    config({ source: slow('creatures'), table: 'during', sync: { cursor_field: null } }),
  )
  const runId = await engine.trigger(id)
  await engine.until(runId, ({ status, records_read }) => status === 'running' && records_read > 0)
  const { notice } = await put(id, { source: quick('plants'), table: 'during', sync: { cursor_field: null } })
  assert.match(notice!, /^The stream changed, so the next run starts from the beginning/)
  assert.equal((await engine.finished(runId)).status, 'success')
  assert.equal(await state(id), null)
  const next = await run(id)
  assert.equal(next.read, 200)
  assert.match(next.log, /The stream changed since/)
})

test('a state set manually belongs to the current config', async () => {
  const id = await engine.createPipeline(config({ table: 'hand' }))
  await run(id)
  await put(id, { stream: 'source.b', table: 'hand' })
  const answer = await engine.call('PUT', `/api/pipelines/${id}/state`, {
    as: engine.person,
    body: { cursor: { cursor: '10' } },
  })
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(await state(id), { cursor: '10' })
  const next = await run(id)
  assert.doesNotMatch(next.log, /starts over/)
  assert.ok(next.read < 15, `${next.read} of 15 rows were read`)
})

test('a change that is reverted before a run has no effect', async () => {
  const id = await engine.createPipeline(config({ table: 'back' }))
  await run(id)
  assert.ok('notice' in (await put(id, { stream: 'source.b', table: 'back' })))
  assert.ok(!('notice' in (await put(id, { table: 'back' }))))
  assert.equal((await run(id)).read, 0)
})

test('state from before fingerprints existed is adopted by the config that produced it', async () => {
  const forget = (id: string) =>
    db.execute(sql`
      WITH s AS (UPDATE pipeline_state SET fingerprint = NULL WHERE pipeline_id = ${id})
      UPDATE pipeline_schemas SET fingerprint = NULL WHERE pipeline_id = ${id}`)
  const kept = await engine.createPipeline(config({ table: 'old' }))
  await run(kept)
  await forget(kept)
  assert.equal((await run(kept)).read, 0)
  const changed = await engine.createPipeline(config({ table: 'older' }))
  await run(changed)
  await forget(changed)
  assert.match((await put(changed, { stream: 'source.b', table: 'older' })).notice!, /^The stream changed/)
  assert.equal((await run(changed)).read, 15)
})

test('what a failed run loaded from the old stream is not a cursor for the new one', async () => {
  const failing = { name: 'dummy', stream: 'creatures', config: { records: 300_000, fail_after: 250_000 } }
  const own = { cursor_field: null }
  const id = await engine.createPipeline(config({ source: failing, table: 'failed', sync: own }))
  const runId = await engine.trigger(id)
  const ended = await engine.finished(runId)
  assert.equal(ended.status, 'failed')
  assert.ok(ended.checkpoint > 0)
  const source = { name: 'dummy', stream: 'plants', config: { records: 30 } }
  assert.match((await put(id, { source, table: 'failed', sync: own })).notice!, /^The stream changed/)
  const next = await run(id)
  assert.equal(next.read, 30)
  assert.match(next.log, /The stream changed since/)
})

/** How an earlier release hashed the settings of a custom source: without a key, so that anybody could test guesses. */
const hashWithoutKey = (settings: Record<string, string>) =>
  createHash('sha256')
    .update(JSON.stringify(Object.entries(settings)))
    .digest('base64url')
    .slice(0, 22)

test('the settings of a custom source are hashed with a key; a hash without one is adopted and nothing is read again', async () => {
  const code = `
from svc.source.base import AbstractSource


class Days(AbstractSource):
    def get_streams(self):
        return ['days']

    def check_connection(self):
        return True

    def get_records(self, stream):
        for day in range(self.state.get('day', 0) + 1, 11):
            yield {'day': day}
            self.state['day'] = day
`
  const body = { name: 'Days', source_name: 'days', code }
  const made = await engine.call('POST', '/api/custom-sources', { as: engine.person, body })
  assert.equal(made.status, 201, made.text)
  const settings = { account: '4711' }
  const sketch = (account: string) => ({
    source: { name: 'days', stream: 'days', config: { account } },
    table: 'days',
    sync: { cursor_field: null },
  })
  const id = await engine.createPipeline(config(sketch(settings.account)))
  assert.equal((await run(id)).read, 10)
  const mark = async () =>
    (await client.query(`SELECT cursor->'fingerprint' AS found FROM target._sluice_marks WHERE pipeline_id = $1`, [id]))
      .rows[0].found
  const state = async () =>
    (await db.first<{ found: object }>(sql`SELECT fingerprint AS found FROM pipeline_state WHERE pipeline_id = ${id}`))!
      .found
  for (const found of [await mark(), await state()]) {
    assert.match(found.settings, /^[0-9a-f]{8}\.[\w-]{22}$/)
    assert.ok(!JSON.stringify(found).includes(hashWithoutKey(settings)))
  }
  const old = JSON.stringify(hashWithoutKey(settings))
  await client.query(
    `UPDATE target._sluice_marks SET cursor = jsonb_set(cursor::jsonb, '{fingerprint,settings}', '${old}')::json WHERE pipeline_id = $1`,
    [id],
  )
  for (const table of [sql`pipeline_state`, sql`pipeline_schemas`])
    await db.execute(
      sql`UPDATE ${table} SET fingerprint = jsonb_set(fingerprint, '{settings}', ${old}::jsonb) WHERE pipeline_id = ${id}`,
    )
  const next = await run(id)
  assert.equal(next.read, 0)
  assert.doesNotMatch(next.log, /starts over|settings of the source changed/)
  for (const found of [await mark(), await state()])
    assert.ok(!JSON.stringify(found).includes(hashWithoutKey(settings)))
  const { notice } = await put(id, sketch('4712'))
  assert.match(notice!, /^The settings of the source changed/, 'from there on a change is reported again')
})
