import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerOrganization, startApp } from '../harness/app.ts'

const app = await startApp()
const organization = await registerOrganization(app)
const { owner } = organization
const config = { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } }
const NOWHERE = '00000000-0000-4000-8000-000000000000'

const refuse = async (method: string, url: string, body?: unknown): Promise<string> => {
  const answer = await app.call(method, url, { as: owner, body })
  assert.equal(answer.status, 400, `${method} ${url}: ${answer.text}`)
  assert.deepEqual(Object.keys(answer.body), ['detail'])
  return answer.body.detail
}

test('a misspelled field is refused with the name that was probably meant', async () => {
  const pipeline = { name: 'x', config }
  assert.equal(
    await refuse('POST', '/api/pipelines', { ...pipeline, scedule: '* * * * *' }),
    "scedule: unknown field; did you mean 'schedule'?",
  )
  assert.equal(
    await refuse('POST', '/api/pipelines', { ...pipeline, enable: false }),
    "enable: unknown field; did you mean 'enabled'?",
  )
  assert.equal(
    await refuse('POST', '/api/domains', { nmae: 'x' }),
    "nmae: unknown field; did you mean 'name'?",
    'rather than: name is required',
  )
  assert.equal(
    await refuse('POST', '/api/domains', { name: 'x', [`${'y'.repeat(3000)}`]: 1 }).then(
      (detail) => detail.length < 400,
    ),
    true,
  )
  assert.equal(
    await refuse('POST', '/api/domains', { name: 'x', weight: 3 }),
    'weight: unknown field; the known fields are name, description, color',
  )
})

test('a misspelled field inside an object of the API is refused with its place', async () => {
  const scopes = { permissions: ['pipelines:read'], domain: NOWHERE }
  assert.equal(
    await refuse('POST', '/api/api-keys', { name: 'x', scopes }),
    'scopes.domain: unknown field; the known fields are permissions, domain_id',
  )
})

test('a misspelled query parameter is refused, also where a route has none', async () => {
  assert.equal(
    await refuse('GET', '/api/runs?stauts=failed'),
    "stauts: unknown query parameter; did you mean 'status'?",
  )
  assert.equal(await refuse('GET', '/api/auth/me?x=1'), 'x: unknown query parameter; this route takes none')
  assert.equal(
    await refuse('GET', `/api/pipelines/${NOWHERE}/state?full=true`),
    'full: unknown query parameter; this route takes none',
  )
  assert.equal(
    await refuse('GET', '/api/domains?__proto__=1&limit=1').then((text) => text.startsWith('__proto__:')),
    true,
  )
})

test('every route refuses a query parameter that it does not know, but the one that providers add to', async () => {
  for (const { method, url } of app.app.routeList) {
    const address = url.replace(/:version/, '1').replace(/:\w+/g, NOWHERE)
    const { status, body } = await app.call(method, `${address}?zzz_unknown=1`, { as: owner })
    if (url === '/api/auth/idp/callback') assert.doesNotMatch(body.detail, /zzz_unknown/)
    // A body that is missing is told first.
    else
      assert.ok(status === 400 && (/zzz_unknown/.test(body.detail) || method !== 'GET'), `${method} ${url} ${status}`)
  }
})

test('every route refuses a field that it does not know', async () => {
  for (const { method, url } of app.app.routeList) {
    if (method === 'GET') continue
    const address = url.replace(/:version/, '1').replace(/:\w+/g, NOWHERE)
    const { status, body } = await app.call(method, address, { as: owner, body: { zzz_unknown: 1 } })
    assert.equal(status, 400, `${method} ${url}`)
    assert.match(body.detail, /^zzz_unknown: unknown field; /, `${method} ${url}`)
  }
})

test('a route that takes no body may be sent an empty one', async () => {
  const { body: made } = await app.call('POST', '/api/pipelines', { as: owner, body: { name: 'x', config } })
  for (const body of [undefined, '', 'null', '{}'])
    assert.equal((await app.call('POST', `/api/pipelines/${made.id}/run`, { as: owner, body })).status, 201, body)
  assert.equal((await app.call('DELETE', `/api/pipelines/${made.id}`, { as: owner, body: '{}' })).status, 204)
})

test('who may not ask learns nothing of the fields', async () => {
  const body = { zzz_unknown: 1 }
  assert.equal((await app.call('POST', '/api/domains', { body })).status, 401)
  assert.equal((await app.call('POST', '/api/domains', { as: organization.viewer, body })).status, 403)
  assert.equal((await app.call('GET', '/api/audit?zzz=1', { as: organization.viewer })).status, 403)
})

test('pages and probes outside the API take any query', async () => {
  for (const url of ['/healthz?probe=1', '/readyz?v=2', '/docs?x=1'])
    assert.ok((await app.call('GET', url)).status < 400, url)
})

test('settings, records and cursors stay as free as they are', async () => {
  const cursor = { position: 5, anything: { goes: [1, { here: true }] } }
  const { body: made } = await app.call('POST', '/api/pipelines', { as: owner, body: { name: 'x', config } })
  const state = await app.call('PUT', `/api/pipelines/${made.id}/state`, { as: owner, body: { cursor } })
  assert.equal(state.status, 200, state.text)
  const body = { authentication: { type: 'mine', params: { of: 'mine' } }, config: { some: { setting: 1 } } }
  const check = await app.call('POST', `/api/custom-sources/${NOWHERE}/check`, { as: owner, body })
  assert.equal(check.status, 404, 'it passed validation')
})
