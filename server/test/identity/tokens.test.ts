import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import { createTokens, type TokenSettings } from '../../src/identity/tokens.ts'
import { type Person, registerPerson, SECRET, startApp } from '../harness/app.ts'

const app = await startApp()
const person = await registerPerson(app)
const other = await registerPerson(app)
const key = new TextEncoder().encode(SECRET)
const settings: TokenSettings = {
  JWT_SECRET_KEY: SECRET,
  JWT_ALGORITHM: 'HS256',
  JWT_ACCESS_TOKEN_EXPIRE_MINUTES: 1440,
  JWT_REFRESH_TOKEN_EXPIRE_DAYS: 7,
}

const me = async (access_token: string) => (await app.call('GET', '/api/auth/me', { as: { access_token } })).status
const refresh = async (refresh_token: string) =>
  (await app.call('POST', '/api/auth/refresh', { body: { refresh_token } })).status
const sign = (claims: Record<string, unknown>, alg = 'HS256', secret = key) =>
  new SignJWT(claims).setProtectedHeader({ alg }).sign(secret)
const claimsOf = ({ access_token }: Person) => decodeJwt(access_token) as Record<string, unknown>

test('an access token names user, organization and session, and lives 24 hours', () => {
  assert.deepEqual(decodeProtectedHeader(person.access_token), { alg: 'HS256', typ: 'JWT' })
  const { sub, org, type, sid, iat, exp, jti, ...more } = claimsOf(person)
  assert.deepEqual(more, {})
  assert.deepEqual([sub, org, type], [person.id, person.organization_id, 'access'])
  assert.equal(Number(exp) - Number(iat), 86_400)
  assert.ok(sid && jti)
})

test('a refresh token names user and session, and lives 7 days', () => {
  const { sub, type, sid, iat, exp, jti, ...more } = decodeJwt(person.refresh_token)
  assert.deepEqual(more, {})
  assert.deepEqual([sub, type], [person.id, 'refresh'])
  assert.equal(exp! - iat!, 7 * 86_400)
  assert.ok(sid && jti)
})

test('the settings of the specification decide algorithm and lifetimes', async () => {
  for (const alg of ['HS256', 'HS384', 'HS512'] as const) {
    const tokens = createTokens({
      ...settings,
      JWT_ALGORITHM: alg,
      JWT_ACCESS_TOKEN_EXPIRE_MINUTES: 5,
      JWT_REFRESH_TOKEN_EXPIRE_DAYS: 1,
    })
    const { sub, org, sid } = claimsOf(person) as { sub: string; org: string; sid: string }
    const access = await tokens.signAccess({ sub, org, sid })
    assert.equal(decodeProtectedHeader(access).alg, alg)
    assert.equal(decodeJwt(access).exp! - decodeJwt(access).iat!, 300)
    assert.equal(decodeJwt(await tokens.signRefresh({ sub, sid })).exp! - decodeJwt(access).iat!, 86_400)
    assert.equal((await tokens.verifyAccess(access))?.sub, sub)
    assert.equal(await me(access), alg === 'HS256' ? 200 : 401, 'only the configured algorithm is believed')
  }
})

test('a cached token that expires stops working', async (context) => {
  const tokens = createTokens({ ...settings, JWT_ACCESS_TOKEN_EXPIRE_MINUTES: 1 })
  const { sub, org, sid } = claimsOf(person) as { sub: string; org: string; sid: string }
  const token = await tokens.signAccess({ sub, org, sid })
  assert.ok(await tokens.verifyAccess(token))
  context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 61_000 })
  assert.equal(await tokens.verifyAccess(token), null)
  assert.equal(await tokens.verifyAccess(token), null)
})

test('what is not a valid access token is 401 and nothing else', async () => {
  const good = claimsOf(person)
  const [header, payload, signature] = person.access_token.split('.') as [string, string, string]
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const now = Math.floor(Date.now() / 1000)
  const bad: Record<string, string> = {
    empty: '.',
    'no token': 'nonsense',
    'algorithm none': `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    'another algorithm, old signature': `${encode({ alg: 'HS512' })}.${payload}.${signature}`,
    'another payload, old signature': `${header}.${encode({ ...good, sub: other.id })}.${signature}`,
    'a changed signature': `${header}.${payload}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
    'no signature': `${header}.${payload}.`,
    'another secret': await sign(good, 'HS256', new TextEncoder().encode('a secret that is not ours at all')),
    'a refresh token': person.refresh_token,
    'another type': await sign({ ...good, type: 'ticket' }),
    'no type': await sign({ ...good, type: undefined }),
    expired: await sign({ ...good, iat: now - 100, exp: now - 1 }),
    'without an end': await sign({ ...good, exp: undefined }),
    'another user': await sign({ ...good, sub: other.id }),
    'another organization': await sign({ ...good, org: other.organization_id }),
    "another's session": await sign({ ...good, sid: claimsOf(other).sid }),
    'an unknown session': await sign({ ...good, sid: '00000000-0000-4000-8000-000000000000' }),
    'a session that is no id': await sign({ ...good, sid: "' OR true --" }),
  }
  for (const [what, token] of Object.entries(bad)) assert.equal(await me(token), 401, what)
  assert.equal(await me(await sign(good)), 200, 'the same claims, well signed, are good')
})

test('what is not a valid refresh token is 401', async () => {
  const good = decodeJwt(person.refresh_token) as Record<string, unknown>
  assert.equal(await refresh(person.access_token), 401)
  assert.equal(await refresh(await sign(good)), 401, 'well signed, but never issued')
  assert.equal(await refresh(await sign({ ...good, type: 'access' })), 401)
  assert.equal(await refresh('nonsense'), 401)
})

test('the header must be of the form that is documented', async () => {
  const token = person.access_token
  for (const authorization of [
    '',
    'Bearer',
    'Bearer ',
    token,
    `Basic ${token}`,
    `Bearer ${token} x`,
    `Bearer${token}`,
  ]) {
    const { status, body, headers } = await app.call('GET', '/api/auth/me', { headers: { authorization } })
    assert.equal(status, 401, authorization)
    assert.equal(typeof body.detail, 'string')
    assert.equal(headers['www-authenticate'], 'Bearer')
  }
  const { status } = await app.call('GET', '/api/auth/me', { headers: { authorization: `bearer ${token}` } })
  assert.equal(status, 200)
  assert.equal((await app.call('GET', '/api/auth/me')).status, 401)
  assert.equal((await app.call('HEAD', '/api/auth/me')).status, 401)
})
