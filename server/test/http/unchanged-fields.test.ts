import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerOrganization, startApp } from '../harness/app.ts'

const app = await startApp()
const { owner, member, admin } = await registerOrganization(app)

const CODE = `from svc.source.base import AbstractSource
from svc.source.models import Record


class Planets(AbstractSource):
    name = 'planets'

    def get_streams(self):
        return ['planets']

    def check_connection(self):
        return True

    def get_records(self, stream):
        yield Record(id='1', data={'name': 'Venus'})
`
const MANIFEST = `
version: 6.0.0
type: DeclarativeSource
check: { type: CheckStream, stream_names: [moons] }
streams:
  - type: DeclarativeStream
    name: moons
    retriever:
      type: SimpleRetriever
      requester: { type: HttpRequester, url_base: 'https://example.com', path: /moons }
      record_selector: { type: RecordSelector, extractor: { type: DpathExtractor, field_path: [] } }
`
const token = 'a secret that readers see as a mask'
const make = async (path: string, body: object): Promise<string> => {
  const answer = await app.call('POST', path, { as: owner, body })
  assert.equal(answer.status, 201, `${path}: ${answer.text}`)
  return `${path}/${answer.body.id}`
}
const config = { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } }
const pipeline = await make('/api/pipelines', { name: 'a', config, schedule: '0 4 * * *', timezone: 'Europe/Berlin' })
const objects: Record<string, { path: string; change: object }> = {
  'PUT /api/auth/me': { path: '/api/auth/me', change: { name: 'Ada' } },
  'PUT /api/organization': { path: '/api/organization', change: { name: 'Acme' } },
  'PUT /api/pipelines/:id': { path: pipeline, change: { name: 'b' } },
  'PUT /api/pipelines/:id/state': { path: `${pipeline}/state`, change: { cursor: { position: 5 } } },
  'PUT /api/domains/:domain_id': { path: await make('/api/domains', { name: 'a' }), change: { color: '#336699' } },
  'PUT /api/webhooks/:id': {
    path: await make('/api/webhooks', { url: 'https://example.com/', events: ['run.failed'] }),
    change: { enabled: false },
  },
  'PUT /api/alerts/:id': {
    path: await make('/api/alerts', {
      name: 'a',
      on: ['failed', 'late'],
      late_after_minutes: 60,
      channel: { type: 'slack', url: 'https://example.com/T0/B0/secret' },
      quiet_hours: { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' },
    }),
    change: { name: 'b' },
  },
  'PUT /api/saved/sources/:id': {
    path: await make('/api/saved/sources', {
      name: 'a',
      connector_name: 'file',
      config: { authentication: { type: 'bearer', params: { token } }, config: { url: 'https://example.com/a.csv' } },
    }),
    change: { description: 'b' },
  },
  'PUT /api/saved/destinations/:id': {
    path: await make('/api/saved/destinations', { name: 'a', connector_name: 'file', config: { format: 'csv' } }),
    change: { name: 'b' },
  },
  'PUT /api/custom-sources/:id': {
    path: await make('/api/custom-sources', { name: 'a', source_name: 'planets', code: CODE }),
    change: { name: 'b' },
  },
  'PUT /api/manifests/:id': {
    path: await make('/api/manifests', { name: 'a', source_name: 'moons', manifest: MANIFEST }),
    change: { name: 'b' },
  },
}

const read = async (path: string) => (await app.call('GET', path, { as: owner })).body

test('whatever GET returns can be sent back with one field changed, at every path that has both', async () => {
  const reads = new Set(app.app.routeList.filter(({ method }) => method === 'GET').map(({ url }) => url))
  const both = app.app.routeList.filter(({ method, url }) => method === 'PUT' && reads.has(url))
  assert.deepEqual(both.map(({ method, url }) => `${method} ${url}`).sort(), Object.keys(objects).sort())
  for (const [route, { path, change }] of Object.entries(objects)) {
    const before = await read(path)
    const answer = await app.call('PUT', path, { as: owner, body: { ...before, ...change } })
    assert.equal(answer.status, 200, `${route}: ${answer.text}`)
    const { updated_at: _then, ...expected } = { ...before, ...change }
    const { updated_at: _now, ...now } = await read(path)
    assert.deepEqual(now, expected, route)
  }
})

test('a field that cannot be changed is refused with another value, and nothing is changed', async () => {
  for (const [route, { path, change }] of Object.entries(objects)) {
    const before = await read(path)
    const fixed = Object.keys(before).filter((name) => ['id', 'created_at', 'updated_at', 'type'].includes(name))
    for (const name of fixed) {
      const body = { ...before, ...change, [name]: '2001-01-01T00:00:00.000Z' }
      const answer = await app.call('PUT', path, { as: owner, body })
      assert.equal(answer.status, 400, `${route} ${name}`)
      assert.match(answer.body.detail, new RegExp(`^${name}: cannot be changed; `), route)
    }
    assert.deepEqual(await read(path), before, route)
  }
})

test('a time may come back in another notation', async () => {
  const { created_at } = await read(pipeline)
  for (const same of [created_at.replace('Z', '000+00:00'), created_at.replace('Z', '+00:00')]) {
    const answer = await app.call('PUT', pipeline, { as: owner, body: { name: 'c', created_at: same } })
    assert.equal(answer.status, 200, answer.text)
  }
})

test('an object that somebody else changed since is not overwritten when it is sent back whole', async () => {
  const stale = await read(pipeline)
  await app.call('PUT', pipeline, { as: admin, body: { name: 'their name' } })
  const answer = await app.call('PUT', pipeline, { as: owner, body: { ...stale, enabled: false } })
  assert.match(`${answer.status} ${answer.body.detail}`, /^400 updated_at: cannot be changed; .* GET returns now$/)
  assert.equal((await read(pipeline)).name, 'their name')
})

test('secrets that come back as masks are kept', async () => {
  const { path } = objects['PUT /api/saved/sources/:id']!
  const { body: viewed } = await app.call('GET', path, { as: owner })
  viewed.config.authentication.params.token = '********'
  const answer = await app.call('PUT', path, { as: member, body: { ...viewed, name: 'renamed' } })
  assert.equal(answer.status, 200, answer.text)
  assert.equal((await read(path)).config.authentication.params.token, token)
})

test('a key that may write but not read learns nothing by guessing what GET returns', async () => {
  const limited = {
    'PUT /api/pipelines/:id': ['pipelines', 'created_at'],
    'PUT /api/pipelines/:id/state': ['pipelines', 'updated_at'],
    'PUT /api/domains/:domain_id': ['domains', 'created_at'],
    'PUT /api/saved/sources/:id': ['connectors', 'connector_name'],
    'PUT /api/saved/destinations/:id': ['connectors', 'connector_name'],
    'PUT /api/custom-sources/:id': ['custom_sources', 'source_name'],
  }
  for (const [route, [area, field]] of Object.entries(limited)) {
    const { path, change } = objects[route]!
    const keyWith = async (...permissions: string[]) =>
      (await app.call('POST', '/api/api-keys', { as: owner, body: { name: 'k', scopes: { permissions } } })).body
    const [writer, both] = [await keyWith(`${area}:write`), await keyWith(`${area}:write`, `${area}:read`)]
    const right = (await read(path))[field!]
    for (const guess of [right, 'wrong']) {
      const answer = await app.call('PUT', path, { as: writer, body: { ...change, [field!]: guess } })
      assert.match(`${answer.status} ${answer.body.detail}`, new RegExp(`^403 .*${area}:read`), route)
    }
    assert.equal((await app.call('PUT', path, { as: both, body: { ...change, [field!]: right } })).status, 200, route)
    assert.equal((await app.call('PUT', path, { as: writer, body: change })).status, 200, route)
  }
})

test('other checks come first: the body, then whether the object is there', async () => {
  const whole = await read(pipeline)
  const missing = pipeline.replace(whole.id, '00000000-0000-4000-8000-000000000000')
  const put = async (path: string, body: object) => {
    const answer = await app.call('PUT', path, { as: owner, body })
    return [answer.status, answer.body.detail]
  }
  assert.deepEqual(await put(missing, whole), [404, 'Pipeline not found'])
  assert.deepEqual(await put(missing, { ...whole, enabled: 1 }), [400, 'enabled: must be a boolean'])
  assert.deepEqual(await put(pipeline, { id: 'x', scedule: '' }), [
    400,
    "scedule: unknown field; did you mean 'schedule'?",
  ])
})
