import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { Browser, fragmentOf } from './browser.ts'
import { CLIENT, startPlainProvider } from './identity-providers.ts'

const provider = await startPlainProvider()
after(() => provider.stop())

const sluice = await startApp({
  PUBLIC_URL: 'https://sluice.test',
  FRONTEND_URL: 'https://console.test',
  IDP_AUTHORIZE_URL: `${provider.issuer}/authorize?theme=dark`,
  IDP_TOKEN_URL: `${provider.issuer}/token`,
  IDP_USERINFO_URL: `${provider.issuer}/user`,
  IDP_CLIENT_ID: CLIENT.id,
  IDP_CLIENT_SECRET: CLIENT.secret,
  EGRESS_ALLOW: '127.0.0.0/8',
})

async function signIn(): Promise<{ fragment: Record<string, string>; authorize: URL }> {
  const { url, trail } = await new Browser(sluice.app, sluice.services.config).visit('https://sluice.test/api/auth/idp')
  return { fragment: fragmentOf(url), authorize: new URL(trail[1]!) }
}

test('a plain OAuth 2.0 provider signs people in by its user info', async () => {
  provider.userinfo = { id: 4711, login: 'octo', email: 'Octo@example.com', avatar_url: 'https://img.test/o.png' }
  const { fragment, authorize } = await signIn()
  const { body } = await sluice.call('GET', '/api/auth/me', { as: { access_token: fragment.access_token! } })
  assert.deepEqual([body.email, body.name, body.avatar_url], ['octo@example.com', 'octo', 'https://img.test/o.png'])
  const { theme, scope, code_challenge_method, nonce } = Object.fromEntries(authorize.searchParams)
  assert.deepEqual([theme, scope, code_challenge_method, nonce], ['dark', 'email profile', 'S256', undefined])
  const again = await signIn()
  const second = await sluice.call('GET', '/api/auth/me', { as: { access_token: again.fragment.access_token! } })
  assert.equal(second.body.id, body.id)
})

test('an address that is not said to be verified opens no existing account', async () => {
  const person = await registerPerson(sluice)
  provider.userinfo = { id: 1, email: person.email }
  assert.deepEqual((await signIn()).fragment, { error: 'email_not_verified' })
  provider.userinfo = { id: 1, email: person.email, verified_email: true }
  assert.ok((await signIn()).fragment.access_token)
})

test('user info without a subject or an address is refused', async () => {
  provider.userinfo = { email: 'x@example.com' }
  assert.deepEqual((await signIn()).fragment, { error: 'provider_error' })
  provider.userinfo = { id: 2, email: null }
  assert.deepEqual((await signIn()).fragment, { error: 'email_missing' })
})
