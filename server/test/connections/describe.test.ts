/** What the streams of a source look like, through the API. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.1' })
const person = await registerPerson(app)
const server = await startPostgresServer()
after(stopPostgresServer)
const database = await server.createDatabase()
const client = await server.connect(database)
await client.query(`
  CREATE TABLE orders (id int8 PRIMARY KEY, price numeric(10,2), net inet NOT NULL, updated_at timestamptz);
  INSERT INTO orders SELECT g, 1, '10.0.0.1' FROM generate_series(1, 30) g;
  ANALYZE orders;
  CREATE TABLE people (name text)`)

const { host, port, user, password } = server
const config = { host, port, user, password, database, tls: { mode: 'disable' } }
const streams = (body: object) => app.call('POST', '/api/connectors/streams', { as: person, body })

test('a stream is described with its columns, key, cursor candidates and estimated rows', async () => {
  const { status, body } = await streams({
    source: { name: 'postgres', config },
    describe: true,
    stream: 'public.orders',
  })
  assert.equal(status, 200)
  assert.deepEqual(body, {
    success: true,
    message: '2 streams',
    streams: ['public.orders', 'public.people'],
    descriptions: [
      {
        stream: 'public.orders',
        columns: [
          { name: 'id', type: 'int64', native_type: 'int8', nullable: false },
          { name: 'price', type: 'decimal(10,2)', native_type: 'numeric(10,2)', nullable: true },
          { name: 'net', type: 'text', native_type: 'inet', nullable: false },
          { name: 'updated_at', type: 'timestamptz', native_type: 'timestamptz', nullable: true },
        ],
        primary_key: ['id'],
        cursor_fields: ['updated_at', 'id'],
        estimated_rows: 30,
      },
    ],
  })
})

test('without a name the first streams are described, up to a hundred', async () => {
  const both = await streams({ source: { name: 'postgres', config }, describe: true })
  assert.deepEqual(
    both.body.descriptions.map((each: { stream: string }) => each.stream),
    ['public.orders', 'public.people'],
  )
  const queries = Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`q${at}`, 'SELECT 1 AS a']))
  const many = await streams({ source: { name: 'postgres', config: { ...config, queries } }, describe: true })
  assert.equal(many.body.streams.length, 152)
  assert.equal(many.body.descriptions.length, 100)
})

test('without describe the answer is unchanged', async () => {
  const { body } = await streams({ source: { name: 'dummy' } })
  assert.deepEqual(body, { success: true, message: '2 streams', streams: ['creatures', 'plants'] })
  const one = { source: { name: 'file', config: { url: 'https://example.com/a.csv' } } }
  assert.equal((await streams(one)).body.message, '1 stream')
})

test('a generated source describes its records, and for a custom source nothing is known', async () => {
  const dummy = await streams({ source: { name: 'dummy', config: { records: 7 } }, describe: true, stream: 'plants' })
  const [plants] = dummy.body.descriptions
  assert.deepEqual([plants.primary_key, plants.estimated_rows], [['id'], 7])
  assert.ok(plants.columns.some(({ name, type }: { name: string; type: string }) => name === 'tags' && type === 'json'))
  const code = `
from svc.source.base import AbstractSource


class Mine(AbstractSource):
    def get_streams(self):
        return ["a"]

    def check_connection(self):
        return True

    def get_records(self, stream):
        yield {"n": 1}
`
  const made = await app.call('POST', '/api/custom-sources', {
    as: person,
    body: { name: 'Mine', source_name: 'mine', code },
  })
  assert.equal(made.status, 201, made.text)
  const own = await streams({ source: { name: 'mine' }, describe: true })
  assert.deepEqual(own.body.descriptions, [
    { stream: 'a', columns: null, primary_key: [], cursor_fields: [], estimated_rows: null },
  ])
})

test('invalid requests are explained', async () => {
  const unknown = await streams({ source: { name: 'dummy' }, describe: true, stream: 'stones' })
  assert.deepEqual(
    [unknown.status, unknown.body.detail],
    [400, "stream: dummy has no stream 'stones'; it has creatures, plants"],
  )
  const alone = await streams({ source: { name: 'dummy' }, stream: 'plants' })
  assert.equal(alone.status, 400)
  const gone = await streams({ source: { name: 'postgres', config }, describe: true, stream: 'public.gone' })
  assert.equal(gone.status, 200)
  assert.deepEqual([gone.body.success, gone.body.streams, gone.body.descriptions], [false, [], []])
  assert.match(gone.body.message, /There is no table, view or query public\.gone/)
  const wrong = await streams({
    source: { name: 'postgres', config: { ...config, password: 'nope-81f' } },
    describe: true,
  })
  assert.equal(wrong.body.success, false)
  assert.ok(!wrong.text.includes('nope-81f'))
})
