import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { AppError, catalogue } from '../../src/errors.ts'
import { decodeBody, parseBody } from '../../src/http/json-body.ts'
import { createReadiness } from '../../src/readiness.ts'
import { registerPerson, startApp } from '../harness/app.ts'

const FRONTEND = 'https://console.example.com'
const app = await startApp({ FRONTEND_URL: `${FRONTEND}/app` })

/** Sends each text in full, whatever comes back meanwhile, and returns all that came. */
async function converse(texts: string[]): Promise<string> {
  if (!app.app.server.listening) await app.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.app.server.address() as { port: number }
  return new Promise<string>((resolve, reject) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => {
      for (const text of texts) socket.write(text)
    })
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.on('end', () => resolve(answer))
    socket.on('error', reject)
  })
}

test('an error is JSON with a detail and nothing else', async () => {
  const answers = [
    await app.call('GET', '/api/nothing'),
    await app.call('POST', '/api/auth/me'),
    await app.call('GET', '/api/auth/me'),
    await app.call('POST', '/api/auth/login', { body: '{ "email": ' }),
    await app.call('POST', '/api/auth/login', { body: '' }),
    await app.call('POST', '/api/auth/login', { body: '<xml/>', headers: { 'content-type': 'text/xml' } }),
    await app.call('GET', '/api/%E0%A4%A'),
    await app.call('GET', '/api/users?limit=%00'),
    await app.call('GET', `/api/${'x'.repeat(5000)}`),
  ]
  assert.deepEqual(
    answers.map(({ status }) => status),
    [404, 405, 401, 400, 400, 400, 400, 400, 404],
  )
  for (const { body, headers } of answers) {
    assert.deepEqual(Object.keys(body), ['detail'])
    assert.ok(body.detail.length > 10, body.detail)
    assert.equal(headers['content-type'], 'application/json; charset=utf-8')
  }
})

test('what nobody foresaw is a bare 500, with its cause in the log alone', async () => {
  const { services } = app
  const { first } = services.db
  services.db.first = () => Promise.reject(new Error('the disk said: secret detail'))
  try {
    const person = { access_token: (await services.tokens.signAccess(ids)) as string }
    const { status, body } = await app.call('GET', '/api/auth/me', { as: person })
    assert.deepEqual([status, body], [500, { detail: 'Internal server error' }])
  } finally {
    services.db.first = first
  }
})
const someId = '00000000-0000-4000-8000-000000000000'
const ids = { sub: someId, org: someId, sid: someId }

test('each error code has its own status', () => {
  const statuses = Object.values(catalogue).map(({ status }) => status)
  assert.equal(new Set(statuses).size, statuses.length)
  assert.equal(new AppError('conflict', 'x').status, 409)
})

test('every answer carries a request id: the one given, or a new one', async () => {
  const given = await app.call('GET', '/healthz', { headers: { 'x-request-id': 'trace-1.a:b_c' } })
  assert.equal(given.headers['x-request-id'], 'trace-1.a:b_c')
  for (const strange of ['a b', 'x'.repeat(65), '<script>', '']) {
    const { headers } = await app.call('GET', '/api/nothing', { headers: { 'x-request-id': strange } })
    assert.match(String(headers['x-request-id']), /^[0-9a-f-]{36}$/)
  }
})

test('a body over 1 MB is 413, one just under it is read', async () => {
  const body = (length: number) => JSON.stringify({ email: 'a@b.c', password: 'x'.repeat(length) })
  assert.equal((await app.call('POST', '/api/auth/login', { body: body(1024 * 1024) })).status, 413)
  assert.equal((await app.call('POST', '/api/auth/login', { body: body(1024 * 1024 - 100) })).status, 400)
})

test('a client that sends a body far too large can send it all, then reads 413 and may go on', async () => {
  const body = 'x'.repeat(6 * 1024 * 1024)
  const answers = await converse([
    `POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  ])
  assert.deepEqual(answers.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 413', 'HTTP/1.1 200'])
})

test('a number in a query is plain digits, in every list', async () => {
  const person = await registerPerson(app)
  for (const path of ['/api/pipelines', '/api/domains', '/api/runs', '/api/audit', '/api/custom-sources']) {
    for (const bad of [
      'limit=0x10',
      'limit=1e2',
      'limit=1.0',
      'limit=%2B5',
      'limit=+5',
      'limit=',
      'offset=-1',
      'offset=x',
    ]) {
      const answer = await app.call('GET', `${path}?${bad}`, { as: person })
      assert.equal(answer.status, 400, `${path}?${bad}`)
      assert.match(answer.body.detail, /^(limit|offset): must be/)
    }
    assert.equal((await app.call('GET', `${path}?limit=005&offset=0`, { as: person })).status, 200)
  }
  const all = await app.call('GET', '/api/audit', { as: person })
  const rest = await app.call('GET', '/api/audit?offset=1', { as: person })
  assert.deepEqual(rest.body, all.body.slice(1))
  assert.equal(rest.headers['x-total-count'], all.headers['x-total-count'])
})

test('a fault is told in words, not as a pattern', async () => {
  const person = await registerPerson(app)
  const details = [
    await app.call('PUT', '/api/organization', { as: person, body: { name: ' ' } }),
    await app.call('POST', '/api/users/invite', { as: person, body: { email: 'nobody', role: 'viewer' } }),
    await app.call('POST', '/api/domains', { as: person, body: { name: 'x', color: 'red' } }),
    await app.call('POST', '/api/webhooks', { as: person, body: { url: 'https://example.com', events: [] } }),
    await app.call('GET', '/api/domains?limit=0', { as: person }),
  ].map(({ body }) => body.detail)
  assert.deepEqual(details, [
    'name: must not be blank',
    'email: must be an address such as ada@example.com',
    'color: must have the form #RRGGBB, such as #3366cc',
    'events: must have at least 1 item',
    'limit: must be 1 or more',
  ])
})

test('nothing is coerced in a body, and __proto__ is refused', async () => {
  const person = await registerPerson(app)
  const rename = (body: unknown) => app.call('PUT', '/api/organization', { as: person, body })
  for (const name of [30, true, null, ['x'], { toString: 'x' }]) assert.equal((await rename({ name })).status, 400)
  assert.equal((await rename('{"name":"x","__proto__":{"admin":true}}')).status, 400)
  assert.equal((await rename('{"name":"x","constructor":{"prototype":{"admin":true}}}')).status, 400)
  assert.equal(({} as { admin?: boolean }).admin, undefined)
})

test('a text that the database could not store is refused where it is parsed', () => {
  for (const text of ['{"a":"\\u0000"}', '{"\\u0000":1}', '{"a":["\\ud800"]}', '['.repeat(101) + ']'.repeat(101)])
    assert.throws(() => parseBody(text), AppError, text.slice(0, 20))
  assert.throws(() => decodeBody(Buffer.from('7b2261223a22ff227d', 'hex')), AppError, 'a byte that is no UTF-8')
  assert.equal(decodeBody(Buffer.from('"é"')), '"é"')
  assert.deepEqual(parseBody('{"a":"\\ud83d\\ude00"}'), { a: '😀' })
  assert.equal(parseBody('  '), undefined)
})

test('only the frontend may call from a browser of another origin', async () => {
  for (const origin of [FRONTEND, 'https://evil.example.com', 'null']) {
    const { headers, status } = await app.call('OPTIONS', '/api/auth/login', {
      headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
    })
    assert.equal(status, 204)
    assert.equal(headers['access-control-allow-origin'], FRONTEND, 'a browser of another origin is told no')
    assert.match(String(headers['access-control-allow-headers']), /Authorization/)
    assert.equal(headers.vary, 'Origin')
  }
  const read = await app.call('GET', '/api/auth/me', { headers: { origin: FRONTEND } })
  assert.equal(read.status, 401)
  assert.equal(read.headers['access-control-allow-origin'], FRONTEND)
  assert.match(String(read.headers['access-control-expose-headers']), /X-Total-Count/)
  const local = await app.call('GET', '/api/auth/me')
  assert.equal(local.headers['access-control-allow-origin'], undefined, 'who names no origin is no browser elsewhere')
})

test('answers carry headers that keep browsers and caches careful', async () => {
  const { headers } = await app.call('GET', '/api/auth/me')
  assert.equal(headers['content-security-policy'], "default-src 'none'; frame-ancestors 'self'")
  assert.equal(headers['cache-control'], 'no-store')
  const page = (await app.call('GET', '/docs')).headers
  assert.match(String(page['content-security-policy']), /default-src 'self'/)
  for (const answer of [headers, page]) {
    assert.equal(answer['x-content-type-options'], 'nosniff')
    assert.equal(answer['x-frame-options'], 'SAMEORIGIN')
    assert.equal(answer['referrer-policy'], 'no-referrer')
  }
  assert.equal(headers['x-powered-by'], undefined)
  assert.equal(headers['strict-transport-security'], undefined, 'not without https')
})

test('behind https the browser is told to stay there', async () => {
  const secure = await startApp({ PUBLIC_URL: 'https://sluice.example.com' })
  assert.match(String((await secure.call('GET', '/healthz')).headers['strict-transport-security']), /max-age=/)
})

test('it says that it lives, and whether it is ready', async () => {
  assert.deepEqual((await app.call('GET', '/healthz')).body, { status: 'ok' })
  const ready = await app.call('GET', '/readyz')
  assert.deepEqual([ready.status, ready.body], [200, { status: 'ready' }])
  const { first } = app.services.db
  app.services.db.first = () => Promise.reject(new Error('gone'))
  try {
    const gone = await app.call('GET', '/readyz')
    assert.deepEqual([gone.status, gone.body], [503, { status: 'not ready' }])
  } finally {
    app.services.db.first = first
  }
})

test('it is not ready while its store does not answer, or nobody looked for runs or schedules for a minute', async () => {
  const { state } = app.services
  const ask = async () => (await app.call('GET', '/readyz')).status
  for (const name of ['claimedAt', 'tickedAt'] as const) {
    state[name] = Date.now() - 61_000
    assert.equal(await ask(), 503)
    state[name] = Date.now()
    assert.equal(await ask(), 200)
    delete state[name]
  }
  const broken = { ...app.services.blobs, check: () => Promise.reject(new Error('gone')) }
  const readiness = createReadiness(app.services.db, broken, state)
  assert.deepEqual(await readiness(), { database: 'ok', store: 'does not answer', queue: 'ok', sandbox: state.sandbox })
})

test('what is not HTTP gets the same form of answer', async () => {
  for (const text of ['nonsense\r\n\r\n', `GET / HTTP/1.1\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`]) {
    const answer = await converse([text])
    assert.match(answer, /^HTTP\/1\.1 400 /)
    assert.deepEqual(Object.keys(JSON.parse(answer.split('\r\n\r\n')[1]!)), ['detail'])
  }
})
