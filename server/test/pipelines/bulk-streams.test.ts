/** One pipeline per stream of a real database: chosen by pattern, with keys and cursors from its descriptions. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.1' })
const owner = await registerPerson(app)
const server = await startPostgresServer()
after(stopPostgresServer)
const database = await server.createDatabase()
const client = await server.connect(database)
await client.query(`
  CREATE TABLE orders (id int8 PRIMARY KEY, updated_at timestamptz NOT NULL);
  CREATE TABLE lines (order_id int8, line int4, PRIMARY KEY (order_id, line));
  CREATE TABLE notes (text text);
  CREATE SCHEMA old;
  CREATE TABLE old.orders (id int8 PRIMARY KEY, updated_at timestamptz NOT NULL)`)
const { host, port, user, password } = server
const place = { host, port, user, password, database, tls: { mode: 'disable' } }
const config = { source: { name: 'postgres', config: place }, destination: { name: 'postgres', config: place } }
const incremental = { ...config, sync: { mode: 'incremental' } }

const bulk = (body: object, more: object = {}) =>
  app.call('POST', '/api/pipelines/bulk', { as: owner, body: { config, ...body }, ...more })
const total = async () => Number((await app.call('GET', '/api/pipelines', { as: owner })).headers['x-total-count'])

test('a dry run shows a pipeline per matching stream, and creates none', async () => {
  const { status, body } = await bulk({
    config: incremental,
    streams: { pattern: 'public.*' },
    table_pattern: 'raw_{stream}',
    dry_run: true,
  })
  assert.equal(status, 200)
  assert.deepEqual(
    body.plan.map(({ stream, table, write, cursor_field, primary_key }: Record<string, unknown>) => [
      stream,
      table,
      write,
      cursor_field,
      primary_key,
    ]),
    [['public.orders', 'raw_orders', 'upsert', 'updated_at', ['id']]],
  )
  assert.equal(body.problems.length, 1)
  assert.match(body.problems[0], /^'public.lines', 'public.notes': config.sync.cursor_field: is required/)
  assert.equal(await total(), 0)
})

test('with a problem nothing is created', async () => {
  const { status, body } = await bulk({ config: incremental, streams: 'all', table_pattern: '{schema}_{stream}' })
  assert.equal(status, 400)
  assert.match(body.detail, /'public.lines', 'public.notes': config.sync.cursor_field/)
  assert.equal(await total(), 0)
})

test('pipelines get their tables, keys and cursors', async () => {
  const made = await bulk({
    config: incremental,
    streams: ['public.orders', 'old.orders'],
    table_pattern: '{schema}_{stream}',
    name_pattern: 'copy of {stream}',
  })
  assert.equal(made.status, 201, made.text)
  const [first, second] = await Promise.all(
    made.body.map(async ({ id }: { id: string }) =>
      app.call('GET', `/api/pipelines/${id}`, { as: owner }).then((answer) => answer.body),
    ),
  )
  assert.deepEqual([first.name, second.name], ['copy of public.orders', 'copy of old.orders'])
  assert.equal(first.config.destination.config.table, 'public_orders')
  assert.equal(second.config.destination.config.table, 'old_orders')
  assert.deepEqual(second.config.sync, { mode: 'incremental', cursor_field: 'updated_at', primary_key: ['id'] })
})

test('what the caller gives is not replaced by a suggestion', async () => {
  const sync = { mode: 'incremental', cursor_field: 'id', write: 'append' }
  const { body } = await bulk({ config: { ...config, sync }, streams: ['public.orders'], dry_run: true })
  assert.deepEqual(body, {
    plan: [
      {
        stream: 'public.orders',
        name: 'postgres public.orders',
        table: 'orders',
        mode: 'incremental',
        write: 'append',
        cursor_field: 'id',
        primary_key: [],
      },
    ],
    problems: [],
  })
})

test('two streams that would share a table are refused', async () => {
  const { status, body } = await bulk({ streams: { pattern: '*.orders' } })
  assert.equal(status, 400)
  assert.match(body.detail, /^table_pattern: 'old.orders' and 'public.orders' would be loaded into the same table/)
})

test('every bad choice is explained', async () => {
  const faults: [object, RegExp][] = [
    [{ streams: { pattern: 'nothing*' } }, /^streams: no stream matches 'nothing\*'/],
    [{ streams: { pattern: '{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}' } }, /^streams.pattern: has too many alternatives/],
    [{ streams: 'some' }, /^streams/],
    [{ streams: {} }, /^streams/],
    [{ streams: 'all', name_pattern: 'Same' }, /^name_pattern: must contain \{stream\}/],
    [{ streams: 'all', config: { destination: config.destination } }, /config.source: is required/],
    [
      { streams: 'all', table_pattern: 'x', config: { ...config, destination: { name: 'file' } } },
      /^table_pattern: the file destination has no tables/,
    ],
    [
      { streams: 'all', config: { ...config, source: { name: 'postgres', config: { ...place, password: 'wrong' } } } },
      /^config.source: .*password/s,
    ],
  ]
  for (const [body, detail] of faults) {
    const answer = await bulk(body)
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.body.detail, detail)
    assert.doesNotMatch(answer.text, /wrong"/)
  }
})

test('a dry run reports an unreachable source as a problem', async () => {
  const source = { name: 'postgres', config: { ...place, database: 'nowhere' } }
  const { status, body } = await bulk({ streams: 'all', dry_run: true, config: { ...config, source } })
  assert.equal(status, 200)
  assert.deepEqual(body.plan, [])
  assert.match(body.problems.join(), /^config.source: .*nowhere/)
})
