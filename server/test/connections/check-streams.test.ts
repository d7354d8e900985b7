/** A check of one stream through the API: that it is there, and that the credentials may use it. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.1' })
const as = await registerPerson(app)
const server = await startPostgresServer()
after(stopPostgresServer)
const database = await server.createDatabase()
const client = await server.connect(database)
await client.query(`
  CREATE TABLE orders (id int8, secret text);
  CREATE TABLE people (id int8, name text);
  CREATE SEQUENCE numbers;
  CREATE SCHEMA hidden; CREATE TABLE hidden.things (id int8);
  CREATE ROLE narrow_${database} LOGIN PASSWORD 'narrow-password';
  GRANT SELECT ON people TO narrow_${database};
  GRANT SELECT (id) ON orders TO narrow_${database};
  GRANT CREATE ON SCHEMA public TO narrow_${database};
  GRANT INSERT ON orders TO narrow_${database}`)

const { host, port } = server
const config = {
  host,
  port,
  user: `narrow_${database}`,
  password: 'narrow-password',
  database,
  tls: { mode: 'disable' },
}
const source = { name: 'postgres', config }
const check = async (body: object) => (await app.call('POST', '/api/connectors/check', { as, body })).body

test('a table that the role may read passes; the stream may stand beside the source or in it', async () => {
  const works = { success: true, message: "The connection works, and the stream 'public.people' can be read" }
  assert.deepEqual(await check({ source, stream: 'public.people' }), works)
  assert.deepEqual(await check({ source: { ...source, stream: 'public.people' } }), works)
  assert.deepEqual(await check({ source: { ...source, stream: 'public.people' }, stream: 'public.people' }), works)
  assert.deepEqual(await check({ source }), { success: true, message: 'The connection works' })
  const both = await check({ source: { ...source, stream: 'public.people' }, stream: 'public.orders' })
  assert.deepEqual(both, { detail: 'stream: differs from source.stream; give only one of them' })
})

test('a table that is not there or may not be read fails and says what to do', async () => {
  for (const [stream, sentence] of [
    ['public.absent', /^There is no table, view or query public\.absent/],
    ['public.orders', /^The role may not read public\.orders: permission denied .*Grant it SELECT/],
    ['hidden.things', /^The role may not read hidden\.things: permission denied .*USAGE on its schema/],
  ] as const) {
    const { success, message } = await check({ source, stream })
    assert.equal(success, false, stream)
    assert.match(message, sentence)
  }
})

test('a query is a stream too', async () => {
  const queries = { mine: 'SELECT id FROM people', theirs: 'SELECT * FROM orders' }
  const allowed = { ...source, config: { ...config, queries: { mine: queries.mine } } }
  assert.equal((await check({ source: allowed, stream: 'mine' })).success, true)
  const refused = await check({ source: { ...source, config: { ...config, queries } }, stream: 'mine' })
  assert.equal(refused.success, false, 'all queries are tried, as without a stream')
})

test('a destination: the table of the stream, or of the settings, takes rows from the role', async () => {
  const destination = { name: 'postgres', config }
  assert.deepEqual(await check({ destination, stream: 'shop.orders' }), {
    success: true,
    message: "The connection works, and the stream 'shop.orders' can be written",
  })
  assert.equal((await check({ destination, stream: 'shop.not_there_yet' })).success, true)
  const people = await check({ destination, stream: 'shop.people' })
  assert.equal(people.success, false)
  assert.match(people.message, /^The role may not write to public\.people; grant it INSERT/)
  const named = await check({ destination: { ...destination, config: { ...config, table: 'people' } } })
  assert.equal(named.success, false, 'the table of the settings is looked at without a stream')
  assert.match((await check({ destination, stream: 'numbers' })).message, /something else than a table/)
})

test('the streams of other sources', async () => {
  const unknown = await check({ source: { name: 'dummy' }, stream: 'plant' })
  assert.deepEqual(unknown, { detail: "stream: dummy has no stream 'plant'; did you mean 'plants'?" })
  assert.equal((await check({ source: { name: 'dummy' }, stream: 'plants' })).success, true)
  assert.equal((await check({ destination: { name: 'file' }, stream: 'anything' })).success, true)
})

test('a custom source is asked for its streams where only it knows them', async () => {
  const code = (streams: string) => `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord


class Sky(AbstractSource):
    def get_streams(self) -> list:
        ${streams}

    def check_connection(self) -> bool:
        return self.config.get('works', True)

    def get_records(self, stream: str):
        yield SourceRecord(id='1', data={})
`
  const save = (source_name: string, streams: string) =>
    app.call('POST', '/api/custom-sources', { as, body: { name: 'Sky', source_name, code: code(streams) } })
  assert.equal((await save('fixed', "return ['planets']")).status, 201)
  const asked = await save('asked', "self.http.get('http://127.0.0.1:9/'); return ['planets']")
  assert.deepEqual(asked.body.streams, ['dynamic'], asked.text)
  assert.equal((await check({ source: { name: 'fixed' }, stream: 'planets' })).success, true)
  assert.match((await check({ source: { name: 'fixed' }, stream: 'moons' })).detail, /it has planets$/)
  const dynamic = await check({ source: { name: 'asked' }, stream: 'moons' })
  assert.equal(dynamic.success, false, 'its get_streams has to answer')
  const broken = await check({ source: { name: 'fixed', config: { works: false } }, stream: 'planets' })
  assert.match(broken.message, /check_connection returned False/)
})
