import assert from 'node:assert/strict'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { openCells, openEgress, readSource, SMALL_LIMITS, writeSource } from './harness.ts'

const zygote = openCells({ limits: { ...SMALL_LIMITS, max_requests: 40, max_response_bytes: 2 << 20 } })
const egress = openEgress()

interface Seen {
  method: string
  url: string
  headers: IncomingHttpHeaders
  body: string
  port: number
}
let seen: Seen[] = []
let open = 0
let mostOpen = 0
let tokens = 0
const sockets = new Set<unknown>()

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  mostOpen = Math.max(mostOpen, ++open)
  let body = ''
  for await (const chunk of request) body += chunk
  const url = request.url ?? ''
  seen.push({ method: request.method ?? '', url, headers: request.headers, body, port: request.socket.localPort ?? 0 })
  sockets.add(request.socket)
  const { pathname, searchParams } = new URL(url, 'http://x')
  const times = seen.filter((each) => each.url === url).length
  await new Promise((resolve) => setImmediate(resolve))
  open--
  if (pathname === '/busy') response.writeHead(times > 2 ? 200 : 503, { 'retry-after': '0' }).end('at last')
  else if (pathname === '/limited') response.writeHead(429, { 'retry-after': '4000' }).end('later')
  else if (pathname === '/later') response.writeHead(times > 1 ? 200 : 429, { 'retry-after': '1' }).end('ok')
  else if (pathname === '/overloaded') response.writeHead(times > 1 ? 200 : 429).end('ok')
  else if (pathname === '/gzip') response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('plain'))
  else if (pathname === '/br') response.writeHead(200, { 'content-encoding': 'br' }).end(brotliCompressSync('plain'))
  else if (pathname === '/large') response.end(Buffer.alloc(3 << 20))
  else if (pathname === '/medium') response.end(Buffer.alloc(3 << 19))
  else if (pathname === '/packed') {
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(3 << 19)))
  } else if (pathname === '/long-token') response.end(JSON.stringify({ access_token: 'x'.repeat(100_000) }))
  else if (pathname === '/redirect') response.writeHead(302, { location: searchParams.get('to') ?? '/' }).end()
  else if (pathname === '/token') {
    tokens++
    response.end(JSON.stringify({ access_token: `token-number-${tokens}`, expires_in: 3600 }))
  } else if (pathname === '/strict-token') {
    response.writeHead(body.includes('client_secret=geheim') ? 200 : 401)
    response.end(JSON.stringify({ access_token: 'from-the-form' }))
  } else if (pathname === '/needs-second') {
    response.writeHead(request.headers.authorization === 'Bearer token-number-2' ? 200 : 401).end('ok')
  } else if (pathname === '/hang') return
  else if (pathname === '/cut') request.socket.destroy()
  else response.end(JSON.stringify({ n: times }))
}

const servers = [createServer(handle), createServer(handle)]
let base = ''
let other = ''
before(async () => {
  for (const server of servers) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const [first, second] = servers.map((server) => (server.address() as AddressInfo).port)
  base = `http://127.0.0.1:${first}`
  other = `http://127.0.0.1:${second}`
})
after(() => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})
beforeEach(() => {
  seen = []
  mostOpen = 0
  tokens = 0
  sockets.clear()
})

/** Runs statements that can use `get`, and returns what they put into `out`. */
async function run(body: string, type = 'none', params: Record<string, string> = {}) {
  const code = writeSource(
    `BASE = "${base}"; OTHER = "${other}"; http = self.http; out = []\n${body}\nyield {"out": out}`,
  )
  const { records, failure, logs } = await readSource(zygote, code, { egress, authentication: { type, params } })
  return { out: records[0]?.out, failure, logs }
}

test('a request is sent as given and its answer comes back complete', async () => {
  const { out, failure } = await run(`
r = http.post(BASE + "/a", params={"q": "x y"}, json={"k": 1}, headers={"X-Mine": "m"})
out += [r.status_code, r.json(), r.headers["content-length"], r.url]
out += [http.get(BASE + path).text for path in ("/gzip", "/br")]`)
  assert.equal(failure, null)
  assert.deepEqual(out, [200, { n: 1 }, '7', `${base}/a?q=x+y`, 'plain', 'plain'])
  const [first] = seen
  assert.deepEqual([first?.method, first?.url, first?.body], ['POST', '/a?q=x+y', '{"k":1}'])
  assert.equal(first?.headers['x-mine'], 'm')
})

test('sequential requests share a connection, and batches run in parallel', async () => {
  await run('for i in range(10): http.get(BASE + "/keep")')
  assert.equal(sockets.size, 1)
  const { out } = await run(`out += [r.json() for r in http.get_many([BASE + f"/many{i}" for i in range(20)])]`)
  assert.equal(out.length, 20)
  assert.ok(mostOpen > 1 && mostOpen <= 8, `${mostOpen} at once`)
})

test('a server that asks to wait is retried, but not for hours', async () => {
  const { out } = await run('out += [http.get(BASE + "/busy").text, http.get(BASE + "/limited").status_code]')
  assert.deepEqual(out, ['at last', 429])
  assert.equal(seen.filter(({ url }) => url === '/busy').length, 3)
  assert.equal(seen.filter(({ url }) => url === '/limited').length, 1)
})

test('a wait before the next attempt is in the log, with its reason', async () => {
  const host = new URL(base).host
  const { out, logs } = await run(`
for path in ("/later", "/overloaded", "/busy", "/limited"): out.append(http.get(BASE + path).status_code)
try: http.get(BASE + "/cut", retries=1)
except Exception: pass`)
  assert.deepEqual(out, [200, 200, 200, 429])
  const patterns = [
    `^source: ${host} answered 429: waiting 1 s, because the server asked for it$`,
    `^source: ${host} answered 429: waiting 0\\.[3-7] s before the next attempt$`,
    `^source: ${host} answered 429 and asked to wait 4000 s; that is more than 300 s, so the source gets this answer$`,
    `^source: the request to ${host} failed: .*: waiting 0\\.[3-7] s before the next attempt$`,
  ]
  assert.equal(logs.length, patterns.length, logs.join('\n'))
  for (const [index, pattern] of patterns.entries()) assert.match(logs[index]!, new RegExp(pattern))
})

test('a broken connection is retried for GET and never for POST', async () => {
  const { out } = await run(`
for send in (http.get, http.post):
    try: send(BASE + "/cut", retries=1)
    except Exception as error: out.append(type(error).__name__)`)
  assert.deepEqual(out, ['ConnectionFailed', 'ConnectionFailed'])
  const methods = seen.map(({ method }) => method)
  assert.equal(methods.filter((method) => method === 'POST').length, 1)
  assert.ok(methods.filter((method) => method === 'GET').length >= 2)
})

test('each authentication type is applied to the request here', async () => {
  const sent = async (type: string, params: Record<string, string>) => {
    seen = []
    const { failure } = await run('http.get(BASE + "/who")', type, params)
    assert.equal(failure, null)
    return seen[0]!.headers
  }
  assert.equal((await sent('api_key', { token: 'abcd' }))['x-api-key'], 'abcd')
  assert.equal((await sent('api_key', { token: 'abcd', header: 'X-Other' }))['x-other'], 'abcd')
  assert.equal((await sent('bearer', { token: 'abcd' })).authorization, 'Bearer abcd')
  assert.equal((await sent('basic', { username: 'u', password: 'p' })).authorization, 'Basic dTpw')
  assert.equal((await sent('of_my_own', { token: 'abcd' })).authorization, undefined)
})

test('a header set by the author takes precedence, and a request can go without credentials', async () => {
  const body = `
http.get(BASE + "/own", headers={"Authorization": "mine"})
http.get(BASE + "/none", auth=False)`
  await run(body, 'bearer', { token: 'abcd' })
  assert.deepEqual(
    seen.map(({ headers }) => headers.authorization),
    ['mine', undefined],
  )
})

test('credentials do not follow a redirect to another origin', async () => {
  for (const [type, name] of [
    ['bearer', 'authorization'],
    ['api_key', 'x-api-key'],
  ] as const) {
    seen = []
    await run('http.get(BASE + "/redirect?to=/same")\nhttp.get(BASE + "/redirect?to=" + OTHER + "/else")', type, {
      token: 'abcd',
    })
    const carried = Object.fromEntries(seen.map(({ url, headers }) => [url.split('?')[0], headers[name] !== undefined]))
    assert.deepEqual(carried, { '/redirect': true, '/same': true, '/else': false })
  }
})

test('an OAuth token is fetched once, kept, and renewed when it is refused', async () => {
  const params = { token_url: `${base}/token`, client_id: 'me', client_secret: 'geheim' }
  const { out, logs } = await run(
    `
http.get_many([BASE + "/a", BASE + "/b", BASE + "/c"])
out += [http.get(BASE + "/needs-second").status_code, http.get(BASE + "/d").status_code]
print("seen token-number-2")`,
    'oauth2_client_credentials',
    params,
  )
  assert.deepEqual(out, [200, 200])
  assert.equal(tokens, 2)
  const request = seen.find(({ url }) => url === '/token')
  assert.equal(request?.headers.authorization, `Basic ${Buffer.from('me:geheim').toString('base64')}`)
  assert.equal(request?.body, 'grant_type=client_credentials')
  assert.equal(seen.at(-1)?.headers.authorization, 'Bearer token-number-2')
  assert.deepEqual(logs, ['source: seen ********'])
})

test('a token server that only reads the form gets the form, and a refusal says what to check', async () => {
  const params = { token_url: `${base}/strict-token`, client_id: 'me', client_secret: 'geheim' }
  await run('http.get(BASE + "/a")', 'oauth2_client_credentials', params)
  assert.equal(seen.at(-1)?.headers.authorization, 'Bearer from-the-form')
  const { failure } = await run('http.get(BASE + "/a")', 'oauth2_client_credentials', {
    ...params,
    client_secret: 'wrong',
  })
  assert.equal(failure?.kind, 'auth')
  assert.match(failure.message, /did not return a token \(status 401\); check token_url, client_id, client_secret/)
})

test('what cannot be sent or read is an exception with its reason', async () => {
  const { out } = await run(`
for url, options in ((BASE + "/large", {}), ("http://10.0.0.1/", {}), ("ftp://x/", {}), (BASE + "/hang", {"timeout": 0.2}), ("http://[", {}),
                     (BASE + "/" + "x" * 70_000, {})):
    try: http.get(url, **options)
    except Exception as error: out.append([type(error).__name__, str(error)])`)
  assert.deepEqual(
    out.map(([name]: [string]) => name),
    ['LimitExceeded', 'Refused', 'Refused', 'Timeout', 'Refused', 'Refused'],
  )
  assert.match(out[5][1], /the address has more than 65536 characters/)
  assert.match(out[0][1], /limit CELL_MAX_RESPONSE_BYTES 2097152/)
})

test('the answers of a batch are limited together, compressed or not; discarded ones do not count', async () => {
  for (const path of ['/medium', '/packed']) {
    const { out } = await run(`
answers = http.get_many([BASE + "${path}"] * 6, return_errors=True)
out += [type(each).__name__ for each in answers]
out += [len(http.get(BASE + "${path}").content) for _ in range(3)]
out += [len(each.content) for each in http.get_many([BASE + "/redirect?to=${path}"] * 2)]`)
    const whole = out.filter((each: unknown) => each === 'Response').length
    assert.ok(whole >= 1 && whole <= 2, `${whole} of six came through from ${path}`)
    assert.equal(out.filter((each: unknown) => each === 'LimitExceeded').length, 6 - whole)
    assert.deepEqual(out.slice(6), new Array(5).fill(3 << 19))
  }
})

test('an overlong token is not a token', async () => {
  const params = { token_url: `${base}/long-token`, client_id: 'me', client_secret: 'geheim' }
  const { failure } = await run('http.get(BASE + "/a")', 'oauth2_client_credentials', params)
  assert.equal(failure?.kind, 'auth')
})

test('the number of requests of a call is limited', async () => {
  const { failure } = await run('for i in range(100): http.get(BASE + "/n")')
  assert.equal(failure?.kind, 'limit')
  assert.match(failure.message, /reached its limit of 40 HTTP requests \(limit CELL_MAX_REQUESTS\)/)
  assert.equal(seen.length, 40)
})

test('statuses that matter to the engine become failure kinds', async () => {
  const { failure } = await run('http.get(BASE + "/limited").raise_for_status()')
  assert.equal(failure?.kind, 'rate_limited')
  assert.equal(failure.transient, true)
  const second = await run('http.get(BASE + "/needs-second").raise_for_status()')
  assert.equal(second.failure?.kind, 'auth')
})
