import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { PASSWORD, registerPerson, startApp } from '../harness/app.ts'
import { fragmentOf } from './browser.ts'
import { CLIENT } from './identity-providers.ts'
import {
  CALLBACK,
  openBrowser,
  provider,
  START,
  settings,
  signIn,
  signInUntilCallback,
  sluice,
} from './provider-setup.ts'

describe('the redirect to the provider and back', () => {
  test('carries PKCE, state, nonce and the callback, and binds the browser with a cookie', async () => {
    const browser = openBrowser(sluice)
    const { location, status } = await browser.request(START)
    const url = new URL(location!)
    assert.equal(status, 302)
    assert.equal(url.origin, provider.issuer)
    const parameters = Object.fromEntries(url.searchParams)
    assert.deepEqual(
      { ...parameters, state: '', nonce: '', code_challenge: '' },
      {
        client_id: CLIENT.id,
        response_type: 'code',
        redirect_uri: CALLBACK,
        scope: 'openid email profile',
        code_challenge_method: 'S256',
        state: '',
        nonce: '',
        code_challenge: '',
      },
    )
    for (const name of ['state', 'nonce', 'code_challenge']) assert.ok(parameters[name]!.length >= 43, name)
    assert.match(
      browser.setCookies[0]!,
      /^__Host-sluice_idp_[0-9a-f]{12}=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600; Secure$/,
    )
    const stored = await sluice.services.db.query(sql`SELECT state_hash::text, browser_hash::text FROM idp_states`)
    assert.ok(!JSON.stringify(stored).includes(Buffer.from(parameters.state!).toString('hex')))
  })

  test('no query parameter decides where the tokens go', async () => {
    for (const name of ['redirect_uri', 'redirect_url', 'return_to', 'next', 'frontend_url']) {
      const refused = await sluice.call('GET', `${START}?${name}=https://evil.test`)
      assert.equal(refused.status, 400, name)
      assert.match(refused.body.detail, new RegExp(`^${name}: unknown `))
    }
  })

  test('the cookie is gone after the callback', async () => {
    const browser = openBrowser(sluice)
    await signIn(sluice, browser)
    assert.equal(browser.cookies.get('sluice.test')!.size, 0)
  })

  test('two tabs of one browser can sign in at the same time', async () => {
    const browser = openBrowser(sluice)
    const first = await signInUntilCallback(browser)
    const second = await signInUntilCallback(browser)
    for (const callback of [first, second]) assert.ok(fragmentOf((await browser.visit(callback)).url).access_token)
  })

  test('a callback works once', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    const cookies = new Map(browser.cookies.get('sluice.test'))
    assert.ok(fragmentOf((await browser.visit(callback)).url).access_token)
    browser.cookies.set('sluice.test', cookies)
    assert.deepEqual(fragmentOf((await browser.visit(callback)).url), { error: 'invalid_state' })
  })

  test('two concurrent callbacks open one session', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    const fragments = (await Promise.all([browser.visit(callback), browser.visit(callback)])).map(({ url }) =>
      fragmentOf(url),
    )
    assert.deepEqual(fragments.map((fragment) => fragment.error).sort(), ['invalid_state', undefined])
  })

  test('a callback from another browser opens nothing and leaves the first one intact', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    const other = openBrowser(sluice)
    assert.deepEqual(fragmentOf((await other.visit(callback)).url), { error: 'invalid_state' })
    const name = [...browser.cookies.get('sluice.test')!.keys()][0]!
    other.cookies.set('sluice.test', new Map([[name, 'x'.repeat(43)]]))
    assert.deepEqual(fragmentOf((await other.visit(callback)).url), { error: 'invalid_state' })
    assert.ok(fragmentOf((await browser.visit(callback)).url).access_token)
  })

  test('a callback after ten minutes is refused with state_expired', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    await sluice.services.db.execute(sql`UPDATE idp_states SET expires_at = now() - interval '1 second'`)
    assert.deepEqual(fragmentOf((await browser.visit(callback)).url), { error: 'state_expired' })
  })

  test('forged callbacks are sign-in errors, never a 500', async () => {
    const browser = openBrowser(sluice)
    for (const query of [
      '',
      '?state=',
      '?state=x',
      '?code=x',
      '?state=a&state=b&code=c',
      '?error=access_denied',
      '?%ff=%00&state=%00',
      '?state[]=1',
    ])
      assert.deepEqual(fragmentOf((await browser.visit(`${CALLBACK}${query}`)).url), { error: 'invalid_state' }, query)
  })

  test('a person who refuses comes back with access_denied', async () => {
    provider.person = null
    assert.deepEqual(await signIn(sluice), { error: 'access_denied' })
  })

  test('a changed code, a second code and another issuer are refused', async () => {
    const changes: ((url: URL) => void)[] = [
      (url) => url.searchParams.set('code', 'wrong'),
      (url) => url.searchParams.append('code', 'second'),
      (url) => url.searchParams.set('iss', 'https://evil.test'),
      (url) => url.searchParams.delete('iss'),
    ]
    for (const change of changes) {
      const browser = openBrowser(sluice)
      const callback = new URL(await signInUntilCallback(browser))
      change(callback)
      assert.deepEqual(
        fragmentOf((await browser.visit(callback.href)).url),
        { error: 'provider_error' },
        callback.search,
      )
    }
  })

  test('an ID token of another sign-in is refused because of its nonce', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    await sluice.services.db.execute(sql`UPDATE idp_states SET nonce = 'another'`)
    assert.deepEqual(fragmentOf((await browser.visit(callback)).url), { error: 'provider_error' })
  })

  test('a provider that fails halfway is a sign-in error, not a 500', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    provider.intercept = (request, response) => {
      if (!request.url!.startsWith('/token')) return false
      response.writeHead(503).end('down')
      return true
    }
    assert.deepEqual(fragmentOf((await browser.visit(callback)).url), { error: 'provider_unavailable' })
  })
})

describe('a provider that cannot be used', () => {
  const startError = async (env: Record<string, string>) => signIn(await startApp({ ...settings(), ...env }))

  test('that is down sends people back with a code, and works once it is up', async () => {
    provider.intercept = (request) => {
      request.socket.destroy()
      return true
    }
    const sluice = await startApp(settings())
    assert.deepEqual(await signIn(sluice), { error: 'provider_unavailable' })
    const person = await registerPerson(sluice)
    const link = await sluice.call('GET', '/api/auth/link/idp', { as: person })
    assert.deepEqual([link.status, typeof link.body.detail], [503, 'string'])
    provider.intercept = null
    assert.ok((await signIn(sluice)).access_token)
  })

  test('that the egress policy closes is unavailable', async () => {
    assert.deepEqual(await startError({ EGRESS_ALLOW: '10.0.0.0/8' }), { error: 'provider_unavailable' })
  })

  test('that names another issuer is refused', async () => {
    provider.intercept = (_request, response) => {
      const metadata = { issuer: 'https://evil.test', authorization_endpoint: `${provider.issuer}/auth` }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata))
      return true
    }
    assert.deepEqual(await startError({}), { error: 'provider_error' })
  })

  test('whose id token is signed with a key that is not its own is refused', async () => {
    provider.intercept = (request, response) => {
      if (!request.url!.startsWith('/jwks')) return false
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: [] }))
      return true
    }
    assert.deepEqual(await startError({}), { error: 'provider_error' })
  })

  test('that does not know us comes back with an error', async () => {
    assert.deepEqual(await startError({ IDP_CLIENT_SECRET: 'wrong' }), { error: 'provider_error' })
  })

  test('that is not configured is 400', async () => {
    const sluice = await startApp()
    const person = await registerPerson(sluice)
    for (const [method, url] of [
      ['GET', '/api/auth/idp'],
      ['GET', '/api/auth/idp/callback?state=x'],
      ['GET', '/api/auth/link/idp'],
      ['DELETE', '/api/auth/unlink/idp'],
    ] as const) {
      const answer = await sluice.call(method, url, { as: person })
      assert.deepEqual([answer.status, typeof answer.body.detail], [400, 'string'], url)
    }
  })
})

test('over plain http the cookie is not Secure, and the password still works beside the provider', async () => {
  const sluice = await startApp({ ...settings(), PUBLIC_URL: 'http://sluice.test' })
  const browser = openBrowser(sluice)
  await browser.request('http://sluice.test/api/auth/idp')
  assert.match(
    browser.setCookies[0]!,
    /^sluice_idp_[0-9a-f]{12}=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600$/,
  )
  const person = await registerPerson(sluice)
  const login = await sluice.call('POST', '/api/auth/login', { body: { email: person.email, password: PASSWORD } })
  assert.equal(login.status, 200)
})
