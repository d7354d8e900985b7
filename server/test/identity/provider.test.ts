import assert from 'node:assert/strict'
import { after, beforeEach, describe, test } from 'node:test'
import { sql } from '../../src/storage/database.ts'
import { PASSWORD, registerPerson, startApp, type TestApp } from '../harness/app.ts'
import { Browser, fragmentOf } from './browser.ts'
import { CLIENT, type Person, startOidcProvider } from './identity-providers.ts'

const PUBLIC_URL = 'https://sluice.test'
const FRONTEND_URL = 'https://console.test/app'
const CALLBACK = `${PUBLIC_URL}/api/auth/idp/callback`
const START = `${PUBLIC_URL}/api/auth/idp`

const provider = await startOidcProvider([CALLBACK])
after(() => provider.stop())
let subjects = 0

beforeEach(() => {
  provider.person = somebody()
  provider.intercept = null
})

/** Somebody the service has never seen, whose address the provider has verified. */
function somebody(overrides: Partial<Person> = {}): Person {
  const sub = `subject-${++subjects}`
  return {
    sub,
    email: `${sub}@Example.com`,
    email_verified: true,
    name: 'Ada',
    picture: 'https://img.test/a.png',
    ...overrides,
  }
}

const settings = () => ({
  PUBLIC_URL,
  FRONTEND_URL,
  IDP_ISSUER: provider.issuer,
  IDP_CLIENT_ID: CLIENT.id,
  IDP_CLIENT_SECRET: CLIENT.secret,
  EGRESS_ALLOW: '127.0.0.0/8',
})

const sluice = await startApp(settings())

const openBrowser = (sluice: TestApp) => new Browser(sluice.app, sluice.services.config)

/** The whole journey; the fragment that reaches the frontend. */
async function signIn(sluice: TestApp, browser = openBrowser(sluice), start = START): Promise<Record<string, string>> {
  const { url } = await browser.visit(start)
  assert.equal(`${url.origin}${url.pathname}`, FRONTEND_URL)
  assert.equal(url.search, '')
  return fragmentOf(url)
}

/** Stops in front of our callback, with everything the provider would send. */
const signInUntilCallback = async (browser: Browser, start = START): Promise<string> =>
  (await browser.visit(start, (url) => url.href.startsWith(CALLBACK))).url.href

const me = (sluice: TestApp, token: string | undefined) =>
  sluice.call('GET', '/api/auth/me', { as: { access_token: token! } })

async function auditActions(sluice: TestApp, email: string): Promise<string[]> {
  const rows = await sluice.services.db.query<{ action: string }>(
    sql`SELECT action FROM audit_log WHERE actor_email = ${email.toLowerCase()} ORDER BY id`,
  )
  return rows.map((row) => row.action)
}

describe('signing in', () => {
  test('a new person gets an account and an organization of their own', async () => {
    const browser = openBrowser(sluice)
    const { access_token, refresh_token, expires_in, token_type } = await signIn(sluice, browser)
    assert.deepEqual([expires_in, token_type], ['86400', 'bearer'])
    const { body } = await me(sluice, access_token)
    const { email, name, avatar_url, role, has_password, idp_linked } = body
    assert.deepEqual(
      { email, name, avatar_url, role, has_password, idp_linked },
      {
        email: provider.person!.email!.toLowerCase(),
        name: 'Ada',
        avatar_url: 'https://img.test/a.png',
        role: 'owner',
        has_password: false,
        idp_linked: true,
      },
    )
    assert.equal(body.organization.name, "Ada's organization")
    const refreshed = await sluice.call('POST', '/api/auth/refresh', { body: { refresh_token } })
    assert.equal(refreshed.status, 200)
    assert.deepEqual(await auditActions(sluice, email), ['organization.created', 'user.registered', 'session.opened'])
  })

  test('the same person comes back to the same account, with name and picture as they are now', async () => {
    const first = await me(sluice, (await signIn(sluice)).access_token)
    provider.person = {
      ...provider.person!,
      name: 'Ada Lovelace',
      picture: 'https://img.test/b.png',
      email: 'moved@example.com',
    }
    const second = await me(sluice, (await signIn(sluice)).access_token)
    assert.equal(second.body.id, first.body.id)
    assert.equal(second.body.email, first.body.email)
    assert.deepEqual([second.body.name, second.body.avatar_url], ['Ada Lovelace', 'https://img.test/b.png'])
    assert.equal(second.body.organization.id, first.body.organization.id)
  })

  test('two first sign-ins at once make one account', async () => {
    const [one, two] = await Promise.all([signIn(sluice), signIn(sluice)])
    const ids = [await me(sluice, one.access_token), await me(sluice, two.access_token)].map((answer) => answer.body.id)
    assert.equal(ids[0], ids[1])
  })

  test('a verified address opens the account that has it and links the identity', async () => {
    const person = await registerPerson(sluice, 'Grace')
    provider.person = somebody({ email: person.email.toUpperCase() })
    const { body } = await me(sluice, (await signIn(sluice)).access_token)
    assert.deepEqual([body.id, body.idp_linked, body.has_password], [person.id, true, true])
    assert.ok((await auditActions(sluice, person.email)).includes('identity.linked'))
  })

  test('an address that is not verified never opens an account that has it', async () => {
    const person = await registerPerson(sluice, 'Mallory Target')
    for (const email_verified of [false, undefined]) {
      const { email_verified: _, ...unknown } = somebody({ email: person.email })
      provider.person = email_verified === undefined ? unknown : { ...unknown, email_verified }
      assert.deepEqual(await signIn(sluice), { error: 'email_not_verified' })
    }
    assert.equal((await me(sluice, person.access_token)).body.idp_linked, false)
  })

  test('a second identity with the same verified address is refused', async () => {
    await signIn(sluice)
    provider.person = somebody({ email: provider.person!.email! })
    assert.deepEqual(await signIn(sluice), { error: 'already_linked' })
  })

  test('without an address there is no account', async () => {
    const { email: _, email_verified: __, ...nameless } = somebody()
    provider.person = nameless
    assert.deepEqual(await signIn(sluice), { error: 'email_missing' })
  })

  test('a picture that is no web address is left out', async () => {
    provider.person = somebody({ picture: 'javascript:alert(1)' })
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.avatar_url, null)
  })

  test('an invitation given at the start is accepted on return', async () => {
    const owner = await registerPerson(sluice, 'Inviter')
    const invited = await sluice.call('POST', '/api/users/invite', {
      as: owner,
      body: { email: 'new.colleague@example.com', role: 'member' },
    })
    const token = new URL(invited.body.invite_url).searchParams.get('token')
    const { body } = await me(sluice, (await signIn(sluice, undefined, `${START}?invitation=${token}`)).access_token)
    assert.deepEqual([body.organization.id, body.role], [owner.organization_id, 'member'])
    const email = provider.person!.email!
    provider.person = somebody()
    assert.deepEqual(await signIn(sluice, undefined, `${START}?invitation=${token}`), { error: 'invitation_invalid' })
    assert.equal((await auditActions(sluice, provider.person.email!)).length, 0)
    assert.ok((await auditActions(sluice, email)).includes('invitation.accepted'))
  })

  test('an invitation that is no token is refused', async () => {
    const answer = await sluice.call('GET', '/api/auth/idp?invitation=a%3Bb')
    assert.equal(answer.status, 400)
    assert.match(answer.body.detail, /invitation/)
  })
})

describe('the way there and back', () => {
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

  test('nothing in the address decides where the tokens go', async () => {
    const tricks = ['redirect_uri', 'redirect_url', 'return_to', 'next', 'frontend_url'].map(
      (name) => `${name}=https://evil.test`,
    )
    const fragment = await signIn(sluice, undefined, `${START}?${tricks.join('&')}`)
    assert.ok(fragment.access_token)
  })

  test('the cookie is gone after the callback', async () => {
    const browser = openBrowser(sluice)
    await signIn(sluice, browser)
    assert.equal(browser.cookies.get('sluice.test')!.size, 0)
  })

  test('two tabs of one browser do not disturb each other', async () => {
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

  test('two callbacks at once open one session', async () => {
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

  test('a callback after ten minutes says so', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    await sluice.services.db.execute(sql`UPDATE idp_states SET expires_at = now() - interval '1 second'`)
    assert.deepEqual(fragmentOf((await browser.visit(callback)).url), { error: 'state_expired' })
  })

  test('callbacks that nobody sent are errors, never faults', async () => {
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

  test('a person who says no comes back with access_denied', async () => {
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

  test('an id token of another sign-in is refused for its nonce', async () => {
    const browser = openBrowser(sluice)
    const callback = await signInUntilCallback(browser)
    await sluice.services.db.execute(sql`UPDATE idp_states SET nonce = 'another'`)
    assert.deepEqual(fragmentOf((await browser.visit(callback)).url), { error: 'provider_error' })
  })

  test('a provider that fails in the middle is an error, not a fault', async () => {
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

describe('linking', () => {
  const beginLink = async (browser: Browser, token: string): Promise<string> => {
    const answer = await browser.request(`${PUBLIC_URL}/api/auth/link/idp`, {
      headers: { authorization: `Bearer ${token}` },
    })
    assert.equal(answer.status, 200)
    return JSON.parse(answer.body).redirect_url
  }

  async function link(token: string): Promise<Record<string, string>> {
    const browser = openBrowser(sluice)
    return fragmentOf((await browser.visit(await beginLink(browser, token))).url)
  }

  test('a signed-in person links the provider, whatever address it has, and signs in with it', async () => {
    const person = await registerPerson(sluice, 'Linker')
    provider.person = somebody({ email: 'private@elsewhere.test', email_verified: false })
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    assert.equal((await me(sluice, (await signIn(sluice)).access_token)).body.id, person.id)
    const actions = await auditActions(sluice, person.email)
    assert.equal(actions.filter((action) => action === 'identity.linked').length, 1)
  })

  test('an identity that is linked to somebody else is refused', async () => {
    await signIn(sluice)
    const person = await registerPerson(sluice, 'Second')
    assert.deepEqual(await link(person.access_token), { error: 'identity_taken' })
    assert.equal((await me(sluice, person.access_token)).body.idp_linked, false)
  })

  test('a second identity is refused until the first is unlinked', async () => {
    const person = await registerPerson(sluice, 'Twice')
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    provider.person = somebody()
    assert.deepEqual(await link(person.access_token), { error: 'already_linked' })
    const unlinked = await sluice.call('DELETE', '/api/auth/unlink/idp', { as: person })
    assert.deepEqual([unlinked.status, typeof unlinked.body.message], [200, 'string'])
    assert.equal((await me(sluice, person.access_token)).body.idp_linked, false)
    assert.deepEqual(await link(person.access_token), { linked: 'true' })
    assert.ok((await auditActions(sluice, person.email)).includes('identity.unlinked'))
  })

  test('a link that somebody else was made to open in their browser links nothing', async () => {
    const attacker = await registerPerson(sluice, 'Attacker')
    const url = await beginLink(openBrowser(sluice), attacker.access_token)
    const victim = openBrowser(sluice)
    assert.deepEqual(fragmentOf((await victim.visit(url)).url), { error: 'invalid_state' })
    assert.equal((await me(sluice, attacker.access_token)).body.idp_linked, false)
  })

  test('unlinking needs a password, and something to unlink', async () => {
    const { access_token } = await signIn(sluice)
    const refused = await sluice.call('DELETE', '/api/auth/unlink/idp', { as: { access_token: access_token! } })
    assert.equal(refused.status, 400)
    assert.match(refused.body.detail, /password/)
    assert.ok((await signIn(sluice)).access_token)
    const person = await registerPerson(sluice)
    assert.equal((await sluice.call('DELETE', '/api/auth/unlink/idp', { as: person })).status, 400)
  })

  test('linking and unlinking need a signed-in person', async () => {
    const person = await registerPerson(sluice)
    const { body } = await sluice.call('POST', '/api/api-keys', {
      as: person,
      body: { name: 'k', expires_in_days: 30 },
    })
    for (const [method, url] of [
      ['GET', '/api/auth/link/idp'],
      ['DELETE', '/api/auth/unlink/idp'],
    ] as const) {
      assert.equal((await sluice.call(method, url)).status, 401)
      assert.equal((await sluice.call(method, url, { as: { key: body.key } })).status, 403)
    }
  })
})

describe('with SIGNUP=invited', () => {
  test('only an invited address makes an account', async () => {
    const sluice = await startApp({ ...settings(), SIGNUP: 'invited' })
    assert.deepEqual(await signIn(sluice), { error: 'signup_closed' })
    const { db } = sluice.services
    const organization = await db.first<{ id: string }>(
      sql`INSERT INTO organizations (name, slug) VALUES ('Acme', 'acme-1') RETURNING id`,
    )
    await db.execute(sql`
      INSERT INTO invitations (organization_id, email, role, token_hash, expires_at)
      VALUES (${organization!.id}, ${provider.person!.email!.toLowerCase()}, 'member', 'x', now() + interval '1 day')`)
    assert.ok((await signIn(sluice)).access_token)
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
