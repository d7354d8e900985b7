/** What the tests of sign-ins share: an OpenID provider, the service that uses it, and the way through both. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, beforeEach } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { startApp, type TestApp } from '../harness/app.ts'
import { tokenOf } from '../tenancy/world.ts'
import { Browser, fragmentOf } from './browser.ts'
import { CLIENT, type Person, startOidcProvider } from './identity-providers.ts'

export const PUBLIC_URL = 'https://sluice.test'
export const FRONTEND_URL = 'https://console.test/app'
export const CALLBACK = `${PUBLIC_URL}/api/auth/idp/callback`
export const START = `${PUBLIC_URL}/api/auth/idp`

export const provider = await startOidcProvider([CALLBACK])
after(() => provider.stop())
let subjects = 0

beforeEach(() => {
  provider.person = somebody()
  provider.intercept = null
})

/** Somebody the service has never seen, whose address the provider has verified. */
export function somebody(overrides: Partial<Person> = {}): Person {
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

export const settings = () => ({
  PUBLIC_URL,
  FRONTEND_URL,
  IDP_ISSUER: provider.issuer,
  IDP_CLIENT_ID: CLIENT.id,
  IDP_CLIENT_SECRET: CLIENT.secret,
  EGRESS_ALLOW: '127.0.0.0/8',
})

export const sluice = await startApp(settings())

export const openBrowser = (sluice: TestApp) => new Browser(sluice.app, sluice.services.config)

/** The whole journey; the fragment that reaches the frontend. */
export async function signIn(
  sluice: TestApp,
  browser = openBrowser(sluice),
  start = START,
): Promise<Record<string, string>> {
  const { url } = await browser.visit(start)
  assert.equal(`${url.origin}${url.pathname}`, FRONTEND_URL)
  assert.equal(url.search, '')
  return fragmentOf(url)
}

/** Stops in front of our callback, with everything the provider would send. */
export const signInUntilCallback = async (browser: Browser, start = START): Promise<string> =>
  (await browser.visit(start, (url) => url.href.startsWith(CALLBACK))).url.href

export const me = (sluice: TestApp, token: string | undefined) =>
  sluice.call('GET', '/api/auth/me', { as: { access_token: token! } })

export async function auditActions(sluice: TestApp, email: string): Promise<string[]> {
  const rows = await sluice.services.db.query<{ action: string }>(
    sql`SELECT action FROM audit_log WHERE actor_email = ${email.toLowerCase()} ORDER BY id`,
  )
  return rows.map((row) => row.action)
}

/** The token of an invitation of the host's organization. */
export async function inviteSomebody(
  sluice: TestApp,
  host: { access_token: string },
  email = `${randomUUID()}@example.com`,
): Promise<string> {
  const answer = await sluice.call('POST', '/api/users/invite', { as: host, body: { email, role: 'member' } })
  assert.equal(answer.status, 201, answer.text)
  return tokenOf(answer.body.invite_url)
}
