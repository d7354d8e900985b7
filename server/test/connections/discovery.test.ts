import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { destinations, sources } from '../../src/connectors/registry.ts'
import { sql } from '../../src/database/database.ts'
import { registerOrganization, startApp } from '../harness/app.ts'

const app = await startApp()
const acme = await registerOrganization(app)
const get = (path: string) => app.call('GET', path, { as: acme.viewer })
const post = (path: string, body: unknown) => app.call('POST', path, { as: acme.member, body })

test('every connector is listed with the fields of the specification, a schema and its capabilities', async () => {
  const listed = await get('/api/connectors/sources')
  assert.equal(listed.status, 200)
  assert.deepEqual(
    listed.body.map((each: { name: string }) => each.name),
    sources.map((each) => each.name),
  )
  const dummy = listed.body.find((each: { name: string }) => each.name === 'dummy')
  assert.deepEqual([dummy.streams, dummy.auth_types], [['creatures', 'plants'], ['api_key']])
  assert.equal(dummy.config_schema.properties.records.default, 10)
  assert.equal(dummy.capabilities.incremental, true)
  for (const source of listed.body)
    if (sources.find((each) => each.name === source.name)!.streams === 'dynamic')
      assert.deepEqual(source.streams, ['dynamic'])
  const others = await get('/api/connectors/destinations')
  assert.deepEqual(
    others.body.map((each: { name: string }) => each.name),
    destinations.map((each) => each.name),
  )
  assert.equal('streams' in others.body[0] || 'auth_types' in others.body[0], false)
})

test('all custom sources of the organization are listed, however many, and none of another', async () => {
  const other = await registerOrganization(app, 'Other')
  const { db } = app.services
  for (const { id, count } of [
    { id: acme.id, count: 45 },
    { id: other.id, count: 1 },
  ])
    await db.execute(sql`
      WITH made AS (INSERT INTO custom_sources (organization_id, name, source_name)
                    SELECT ${id}, 'S', 'source_' || n FROM generate_series(1, ${count}::int) AS n RETURNING id)
      INSERT INTO custom_source_versions (custom_source_id, version, code, streams) SELECT id, 1, 'self.state', '["a"]' FROM made`)
  const listed = (await get('/api/connectors/sources')).body.filter(({ name }: { name: string }) =>
    name.startsWith('source_'),
  )
  assert.equal(new Set(listed.map(({ name }: { name: string }) => name)).size, 45)
  assert.ok(listed.every((each: { capabilities: { incremental: boolean } }) => each.capabilities.incremental))
  await db.execute(sql`DELETE FROM custom_sources`)
})

test('a connection is checked, inline and saved', async () => {
  const inline = await post('/api/connectors/check', { source: { name: 'dummy' } })
  assert.deepEqual(inline.body, { success: true, message: 'The connection works' })
  const saved = await post('/api/saved/destinations', { name: 'F', connector_name: 'file', config: {} })
  const checked = await post('/api/connectors/check', { destination: { saved_connector_id: saved.body.id } })
  assert.equal(checked.body.success, true, checked.text)
  const streams = await post('/api/connectors/streams', { source: { name: 'dummy' } })
  assert.deepEqual(streams.body.streams, ['creatures', 'plants'])
})

test('bad input is refused with its path', async () => {
  for (const [body, detail] of [
    [{}, /give either source or destination/],
    [{ source: { name: 'dummy' }, destination: { name: 'file' } }, /give either/],
    [{ source: { name: 'dumy' } }, /^source\.name: there is no source 'dumy'/],
    [{ source: { name: 'dummy', config: { recods: 1 } } }, /^source\.config\.recods: unknown field/],
    [
      { source: { saved_connector_id: '00000000-0000-4000-8000-000000000000' } },
      /^source\.saved_connector_id: there is no/,
    ],
    [{ source: 5 }, /^source: must be an object/],
  ] as const) {
    const answer = await post('/api/connectors/check', body)
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.body.detail, detail)
  }
  assert.equal((await post('/api/connectors/streams', { destination: { name: 'file' } })).status, 400)
})

test('an unreachable system is a result, and contains no secret', async (t) => {
  if (!sources.some((each) => each.name === 'postgres')) return t.skip('there is no postgres source')
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const answer = await post('/api/connectors/check', {
    source: {
      name: 'postgres',
      config: { host: '127.0.0.1', port, user: 'u', password: 'pass-7c6b5a4d', database: 'd' },
    },
  })
  server.close()
  assert.equal(answer.status, 200, answer.text)
  assert.equal(answer.body.success, false)
  assert.ok(answer.body.message.length > 10)
  assert.equal(answer.text.includes('pass-7c6b5a4d'), false)
})
