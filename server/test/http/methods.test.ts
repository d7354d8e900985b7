import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const person = await registerPerson(app)
const ID = '00000000-0000-4000-8000-000000000000'
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE']

const addresses = new Map<string, Set<string>>()
for (const { method, url } of app.app.routeList) addresses.set(url, (addresses.get(url) ?? new Set()).add(method))

test('a method that an address does not have is 405 with Allow, for everybody', async () => {
  for (const [url, declared] of addresses) {
    const address = url.replace(/:version/, '1').replace(/:\w+/g, ID)
    for (const method of METHODS) {
      if (declared.has(method) || (method === 'HEAD' && declared.has('GET'))) continue
      for (const as of [person, null]) {
        const answer = await app.call(method, `${address}?x=1`, { as })
        assert.equal(answer.status, 405, `${method} ${url}`)
        const allowed = String(answer.headers.allow).split(', ')
        assert.deepEqual(allowed.filter((name) => !['HEAD', 'OPTIONS'].includes(name)).sort(), [...declared].sort())
        if (method === 'HEAD') continue
        assert.deepEqual(Object.keys(answer.body), ['detail'])
        assert.match(answer.body.detail, new RegExp(`^This address does not have the method ${method}; it has `))
      }
    }
  }
})

test('OPTIONS tells the methods of an address', async () => {
  const { status, headers, text } = await app.call('OPTIONS', `/api/pipelines/${ID}`)
  assert.deepEqual([status, headers.allow, text], [204, 'DELETE, GET, HEAD, PUT, OPTIONS', ''])
  assert.equal((await app.call('OPTIONS', '/api/pipelines/bulk')).headers.allow, 'POST, OPTIONS')
})

test('an unknown address stays 404, whatever the method', async () => {
  for (const method of [...METHODS, 'OPTIONS'])
    for (const path of ['/api/pipelinez', '/api/', `/api/pipelines/${ID}/nothing`, '/nothing']) {
      const answer = await app.call(method, path, { as: person })
      assert.equal(answer.status, 404, `${method} ${path}`)
      assert.equal(answer.headers.allow, undefined)
    }
})

test('HEAD answers like GET, without a body', async () => {
  const [head, get] = [
    await app.call('HEAD', '/api/auth/me', { as: person }),
    await app.call('GET', '/api/auth/me', { as: person }),
  ]
  assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', get.headers['content-length']])
  assert.equal((await app.call('HEAD', '/api/auth/me')).status, 401)
})

test('pages and probes have their methods too', async () => {
  for (const path of ['/healthz', '/readyz', '/docs/json']) {
    const { status, headers } = await app.call('POST', path)
    assert.deepEqual([status, headers.allow], [405, 'GET, HEAD, OPTIONS'], path)
  }
})
