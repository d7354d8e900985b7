/** `context.fetch`, with token endpoints that behave and others that do not. */
import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { after, beforeEach, describe, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { createFetch, type FetchOptions } from '../../src/connectors/authentication/fetch.ts'
import type { RefreshTokens } from '../../src/connectors/authentication/refresh-tokens.ts'
import { type Authentication, ConnectorError, type Fetch } from '../../src/connectors/contract.ts'
import { openEgress, startServer } from '../egress/http-server.ts'
import { type AuthServer, startAuthServer } from '../harness/auth-server.ts'

const egress = openEgress()
const auth: AuthServer = await startAuthServer()
after(() => auth.close())
const server = await startServer()
const other = await startServer()
let seen: { path: string; headers: IncomingHttpHeaders }[] = []

for (const each of [server, other])
  each.on('/data', (request, response) => {
    seen.push({ path: request.url!, headers: request.headers })
    response.writeHead(auth.admits(request.headers) ? 200 : 401).end('data')
  })

beforeEach(() => {
  auth.reset()
  seen = []
})

const open = (authentication: Authentication, options: Partial<FetchOptions> = {}): Fetch =>
  createFetch({ egress, authentication, ...options })
const get = async (fetch: Fetch, path = '/data'): Promise<number> => (await fetch(`${server.base}${path}`)).status
const refreshing = () => auth.good('oauth2_refresh_token')

/** Refresh tokens in memory, with a record of the requests. */
function keep(first: string): RefreshTokens & { token: string; calls: string[]; stored: string[] } {
  return {
    token: first,
    calls: [],
    stored: [],
    async begin() {
      this.calls.push('begin')
      return this.token
    },
    async end(used, rotated) {
      this.calls.push('end')
      if (rotated !== null && used === this.token) {
        this.token = rotated
        this.stored.push(rotated)
      }
      return this.token
    },
  }
}

describe('headers', () => {
  test('a token that no header can carry is refused by name, and never repeated', async () => {
    for (const type of ['api_key', 'bearer'])
      await assert.rejects(get(open({ type, params: { token: 'eyJhbGciOi…' } })), {
        kind: 'auth',
        message: 'the token has a character that no HTTP header can carry; copy it again',
      })
    assert.deepEqual(seen, [])
  })

  test('an api_key goes into X-API-Key or the header that is named, and nowhere else', async () => {
    await get(open({ type: 'api_key', params: { token: 'k' } }))
    await get(open({ type: 'api_key', params: { token: 'k', header: 'X-Other' } }))
    assert.deepEqual(
      seen.map(({ headers }) => [headers['x-api-key'], headers['x-other'], headers.authorization]),
      [
        ['k', undefined, undefined],
        [undefined, 'k', undefined],
      ],
    )
  })

  test('a header set by the caller takes precedence, whatever its case, and a request can go without credentials', async () => {
    const fetch = open({ type: 'bearer', params: { token: 'abcd' } })
    await fetch(`${server.base}/data`, { headers: { AUTHORIZATION: 'mine' } })
    await fetch(`${server.base}/data`, { authenticate: false })
    await fetch(`${server.base}/data`, { headers: { accept: 'a/b' } })
    assert.deepEqual(
      seen.map(({ headers }) => [headers.authorization, headers.accept]),
      [
        ['mine', '*/*'],
        [undefined, '*/*'],
        ['Bearer abcd', 'a/b'],
      ],
    )
  })

  test('a missing parameter is a failure, and nothing is sent', async () => {
    for (const [type, missing] of [
      ['api_key', 'token'],
      ['basic', 'username'],
      ['oauth2_client_credentials', 'token_url'],
      ['oauth2_refresh_token', 'token_url'],
    ] as const)
      await assert.rejects(get(open({ type, params: {} })), (error: Error) => {
        assert.ok(error instanceof ConnectorError && error.kind === 'auth')
        return error.message === `authentication of type ${type} needs the parameter ${missing}`
      })
    assert.deepEqual(seen, [])
  })
})

describe('redirects', () => {
  test('to another origin carry no credentials of any type, and its 401 renews nothing', async () => {
    server.redirect('/out', `${other.base}/data`)
    server.redirect('/in', '/data')
    for (const type of ['api_key', 'bearer', 'basic', 'oauth2_client_credentials', 'oauth2_refresh_token'] as const) {
      auth.reset()
      auth.guard(type)
      seen = []
      const fetch = open(auth.good(type))
      assert.equal(await get(fetch, '/out'), 401, type)
      assert.deepEqual([seen[0]!.headers.authorization, seen[0]!.headers['x-api-key']], [undefined, undefined], type)
      assert.equal(seen.length, 1)
      assert.ok(auth.tokenRequests.length <= 1)
      assert.equal(await get(fetch, '/in'), 200, type)
    }
  })
})

describe('tokens', () => {
  test('are fetched once for concurrent requests, and cached', async () => {
    auth.guard('oauth2_client_credentials')
    const fetch = open(auth.good('oauth2_client_credentials'))
    assert.deepEqual(await Promise.all([1, 2, 3, 4].map(() => get(fetch))), [200, 200, 200, 200])
    assert.equal(await get(fetch), 200)
    assert.equal(auth.tokenRequests.length, 1)
    assert.equal(fetch.obtained.length, 1)
  })

  test('that are refused are renewed once for all requests, streams included', async () => {
    auth.guard('oauth2_client_credentials')
    const fetch = open(auth.good('oauth2_client_credentials'))
    await get(fetch)
    auth.expireTokens()
    assert.deepEqual(await Promise.all([1, 2, 3].map(() => get(fetch))), [200, 200, 200])
    assert.equal(auth.tokenRequests.length, 2)
    auth.expireTokens()
    const answer = await fetch.stream(`${server.base}/data`)
    assert.deepEqual([answer.status, answer.requests], [200, 2])
    answer.body.resume()
    assert.equal(auth.tokenRequests.length, 3)
  })

  test('are not requested endlessly from a server that refuses them all', async () => {
    auth.guard('oauth2_client_credentials')
    const fetch = open(auth.good('oauth2_client_credentials'))
    auth.onRequest = () => auth.expireTokens()
    for (let index = 0; index < 100; index++) assert.equal(await get(fetch), 401)
    assert.equal(auth.tokenRequests.length, 31)
    assert.ok(fetch.obtained.length <= 20)
  })

  test('are used for a few seconds however short their lifetime', async () => {
    auth.guard('oauth2_refresh_token')
    for (const expiresIn of [0.001, -5, 'soon', null, Number.MAX_VALUE]) {
      auth.reset()
      auth.expiresIn = expiresIn
      const fetch = open(refreshing())
      for (let index = 0; index < 20; index++) assert.equal(await get(fetch), 200)
      assert.equal(auth.tokenRequests.length, 1, String(expiresIn))
    }
  })

  test('of a public client are requested with its id in the form only', async () => {
    auth.naming = 'form'
    const { client_secret: _, ...params } = refreshing().params
    await assert.rejects(get(open({ type: 'oauth2_refresh_token', params })), { name: 'AuthenticationFailed' })
    const [{ headers, form }] = auth.tokenRequests as [AuthServer['tokenRequests'][0]]
    assert.deepEqual([headers.authorization, form.client_secret], [undefined, undefined])
    assert.deepEqual(Object.keys(form).sort(), ['client_id', 'grant_type', 'refresh_token', 'scope'])
  })

  test('are not waited for once the request has ended, but their answer is still stored', async () => {
    auth.guard('oauth2_refresh_token')
    const authentication = refreshing()
    const first = String(authentication.params.refresh_token)
    const store = keep(first)
    const ended = Promise.withResolvers<void>()
    const fetch = open(authentication, {
      refreshTokens: {
        begin: (held) => store.begin(held),
        async end(used, rotated) {
          await ended.promise
          return store.end(used, rotated)
        },
      },
    })
    const controller = new AbortController()
    const waiting = fetch(`${server.base}/data`, { signal: controller.signal })
    while (auth.tokenRequests.length === 0) await delay(1)
    controller.abort(new Error('cancelled'))
    await assert.rejects(waiting, /cancelled/)
    ended.resolve()
    assert.equal(await get(fetch), 200)
    assert.deepEqual(store.stored, [auth.currentToken(first)])
    assert.equal(auth.tokenRequests.length, 1)
  })
})

describe('refresh tokens', () => {
  test('are rotated at each exchange, stored each time, and used in turn', async () => {
    auth.guard('oauth2_refresh_token')
    const authentication = refreshing()
    const store = keep(String(authentication.params.refresh_token))
    const fetch = open(authentication, { refreshTokens: store })
    for (let index = 0; index < 5; index++) {
      auth.expireTokens()
      assert.equal(await get(fetch), 200)
    }
    assert.equal(store.stored.length, auth.tokenRequests.length)
    assert.equal(store.token, auth.currentToken(String(authentication.params.refresh_token)))
    assert.deepEqual(new Set(auth.tokenRequests.map(({ status }) => status)), new Set([200]))
    assert.equal(store.calls.filter((call) => call === 'begin').length, store.calls.length / 2)
  })

  test('that stay valid are not stored again', async () => {
    auth.guard('oauth2_refresh_token')
    auth.rotates = false
    const authentication = refreshing()
    const store = keep(String(authentication.params.refresh_token))
    assert.equal(await get(open(authentication, { refreshTokens: store })), 200)
    assert.deepEqual([store.calls, store.stored], [['begin', 'end'], []])
  })

  test('are kept in memory if they are not stored', async () => {
    auth.guard('oauth2_refresh_token')
    const fetch = open(refreshing())
    for (let index = 0; index < 3; index++) {
      auth.expireTokens()
      assert.equal(await get(fetch), 200)
    }
  })

  test('that were stored meanwhile replace an old one', async () => {
    auth.guard('oauth2_refresh_token')
    const old = refreshing()
    const newer = refreshing()
    const store = keep(String(old.params.refresh_token))
    const fetch = open(
      { type: old.type, params: { ...old.params, refresh_token: 'no longer valid' } },
      { refreshTokens: store },
    )
    store.token = 'no longer valid either'
    const begin = store.begin.bind(store)
    store.begin = async (held) => {
      const token = await begin(held)
      // Stored by another process between reading and using it.
      store.token = String(newer.params.refresh_token)
      return token
    }
    assert.equal(await get(fetch), 200)
    assert.deepEqual(store.calls, ['begin', 'end', 'begin', 'end'])
  })

  test('that cannot be stored are not used, and neither is what came with them', async () => {
    auth.guard('oauth2_refresh_token')
    const authentication = refreshing()
    const refuse = () => Promise.reject(new ConnectorError('internal', 'The refresh token could not be stored.'))
    const refreshTokens = { begin: async (held: string) => held, end: refuse }
    await assert.rejects(get(open(authentication, { refreshTokens })), /could not be stored/)
    assert.deepEqual(seen, [])
  })

  test('release their turn when the exchange fails', async () => {
    const authentication = auth.bad('oauth2_refresh_token')
    const store = keep(String(authentication.params.refresh_token))
    await assert.rejects(get(open(authentication, { refreshTokens: store })), { name: 'AuthenticationFailed' })
    assert.deepEqual(store.calls, ['begin', 'end'])
    assert.deepEqual(
      auth.tokenRequests.map(({ status }) => status),
      [401, 401],
    )
  })

  test('that are refused are sent once, not once per way to identify the client', async () => {
    const { params } = refreshing()
    const gone = { type: 'oauth2_refresh_token', params: { ...params, refresh_token: 'gone' } }
    await assert.rejects(get(open(gone)), { code: 'invalid_grant', transient: false })
    assert.equal(auth.tokenRequests.length, 1)
  })
})

describe('a hostile token endpoint', () => {
  const cases: Record<string, { onToken: NonNullable<AuthServer['onToken']>; message: RegExp; transient?: boolean }> = {
    'that never ends its body': {
      onToken: (_, response) => {
        const write = () => {
          while (response.write(Buffer.alloc(16 * 1024, 32)));
        }
        response.on('drain', write).on('error', () => {})
        write()
      },
      message: /larger than the 262144 bytes allowed/,
    },
    'that redirects to a private address': {
      onToken: (_, response) => response.writeHead(307, { location: 'http://169.254.169.254/latest' }).end(),
      message: /status 307\); token_url redirects, which is not followed/,
    },
    'that fails': {
      onToken: (_, response) => response.writeHead(503).end(),
      message: /try again later/,
      transient: true,
    },
    'that hangs up': {
      onToken: (request) => request.socket.destroy(),
      message: /no token could be fetched from token_url/,
      transient: true,
    },
    'that does not answer JSON': {
      onToken: (_, response) => response.end('access_token=x'),
      message: /did not return a token/,
    },
    'that answers JSON of another kind': {
      onToken: (_, response) => response.end('[["access_token"]]'),
      message: /did not return a token/,
    },
    'with endless nesting': {
      onToken: (_, response) => response.end('['.repeat(200_000)),
      message: /did not return a token/,
    },
    'whose token has a megabyte': {
      onToken: (_, response) => response.end(JSON.stringify({ access_token: 'x'.repeat(1 << 20) })),
      message: /larger than the 262144 bytes allowed/,
    },
    'whose token is too long': {
      onToken: (_, response) => response.end(JSON.stringify({ access_token: 'x'.repeat(100_000) })),
      message: /did not return a token/,
    },
    'whose token is not text': {
      onToken: (_, response) => response.end('{"access_token":{"toString":"x"}}'),
      message: /did not return a token/,
    },
    'whose new refresh token is not a token': {
      onToken: (_, response) => response.end('{"access_token":"x","refresh_token":"\\u0000"}'),
      message: /answered with a new refresh token that is not a valid token/,
    },
    'that repeats a secret in its error': {
      onToken: (_, response) => response.writeHead(400).end('{"error":"client:secret/+=%"}'),
      message: /did not return a token \(status 400\)/,
    },
  }
  for (const [name, { onToken, message, transient = false }] of Object.entries(cases))
    test(`${name} causes a clear error`, async () => {
      auth.onToken = onToken
      const authentication = refreshing()
      await assert.rejects(get(open(authentication)), (error: Error) => {
        assert.ok(error instanceof ConnectorError)
        assert.deepEqual([error.kind, error.transient], ['auth', transient], error.message)
        assert.match(error.message, message)
        for (let at: unknown = error; at instanceof Error; at = at.cause)
          for (const secret of auth.secrets) assert.ok(!`${at.message}${at.stack}`.includes(secret))
        return true
      })
      assert.deepEqual(seen, [])
    })

  test('at a forbidden address is not contacted', async () => {
    const closed = openEgress({ allow: [] })
    await assert.rejects(createFetch({ egress: closed, authentication: refreshing() })('https://example.com/'), {
      name: 'AuthenticationFailed',
      message: /no token could be fetched from token_url: connections to 127\.0\.0\.1 \(loopback\) are not allowed/,
    })
    assert.equal(auth.tokenRequests.length, 0)
  })
})
