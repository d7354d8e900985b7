import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { hasValidChecksum, makeApiKey } from '../../src/tenancy/api-keys.ts'
import { type Person, registerOrganization, startApp } from '../harness/app.ts'
import { addOrganization, setRole, tokenOf } from './world.ts'

const app = await startApp()
const { call, services } = app
const acme = await registerOrganization(app)

async function makeKey(as: Person, body: object = { name: 'key' }): Promise<{ id: string; key: string }> {
  const answer = await call('POST', '/api/api-keys', { as, body })
  assert.equal(answer.status, 201, answer.text)
  return answer.body
}

const expire = (id: string) =>
  services.db.execute(sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = ${id}`)

test('a key that is sent as a bearer token is refused with the header that takes it', async () => {
  const { key } = await makeKey(acme.owner)
  const { status, body } = await call('GET', '/api/pipelines', { as: { access_token: key } })
  assert.equal(status, 401)
  assert.equal(body.detail, 'This is an API key, not an access token; send it as "X-API-Key: …"')
})

test('a key has 44 characters, is shown once and is stored only as a hash', async () => {
  const { status, body } = await call('POST', '/api/api-keys', {
    as: acme.owner,
    body: { name: ' CI ', expires_in_days: null },
  })
  assert.equal(status, 201)
  assert.match(body.key, /^svc_live_[A-Za-z0-9_-]{35}$/)
  assert.equal(body.key.length, 44)
  assert.equal(body.key_prefix, body.key.slice(0, 12))
  assert.deepEqual(
    { ...body, id: '', key: '', key_prefix: '', created_at: '' },
    { id: '', name: 'CI', key: '', key_prefix: '', expires_at: null, created_at: '' },
  )
  const listed = await call('GET', '/api/api-keys', { as: acme.viewer })
  assert.ok(!listed.text.includes(body.key))
  assert.deepEqual(
    listed.body.find((item: { id: string }) => item.id === body.id),
    {
      id: body.id,
      name: 'CI',
      key_prefix: body.key_prefix,
      scopes: {},
      last_used_at: null,
      expires_at: null,
      created_at: body.created_at,
      created_by: acme.owner.id,
      created_by_name: 'Acme Owner',
    },
  )
  const [stored] = await services.db.query<{ row: string }>(
    sql`SELECT to_jsonb(k)::text AS row FROM api_keys k WHERE id = ${body.id}`,
  )
  assert.ok(!stored!.row.includes(body.key.slice(12)))
})

test('the lifetime is 30, 90, 180 or 365 days, or none', async () => {
  for (const expires_in_days of [30, 90, 180, 365]) {
    const { body } = await call('POST', '/api/api-keys', { as: acme.owner, body: { name: 'key', expires_in_days } })
    const days = (Date.parse(body.expires_at) - Date.parse(body.created_at)) / 86_400_000
    assert.equal(days, expires_in_days)
  }
  assert.equal((await call('POST', '/api/api-keys', { as: acme.owner, body: { name: 'k' } })).body.expires_at, null)
  for (const expires_in_days of [0, 31, '30', 30.5, -30, true]) {
    const answer = await call('POST', '/api/api-keys', { as: acme.owner, body: { name: 'key', expires_in_days } })
    assert.equal(answer.status, 400, JSON.stringify(expires_in_days))
    assert.match(answer.body.detail, /expires_in_days/)
  }
  for (const body of [{}, { name: '' }, { name: ' ' }, { name: 7 }, { name: null }])
    assert.equal((await call('POST', '/api/api-keys', { as: acme.owner, body })).status, 400, JSON.stringify(body))
})

test('a mistyped key is refused by its checksum', async () => {
  const key = makeApiKey()
  assert.ok(hasValidChecksum(key))
  const other = (letter: string) => (letter === 'a' ? 'b' : 'a')
  for (const at of [9, 20, 40, 41, 43]) {
    const mistyped = key.slice(0, at) + other(key[at]!) + key.slice(at + 1)
    assert.equal(hasValidChecksum(mistyped), false, mistyped)
  }
  for (const wrong of ['', 'svc_live_', `${key}a`, key.slice(1), key.toUpperCase()])
    assert.equal((await call('GET', '/api/auth/me', { headers: { 'x-api-key': wrong } })).status, 401, wrong)
})

test('an unknown, a revoked and an expired key are refused alike', async () => {
  const [revoked, expired] = [await makeKey(acme.member), await makeKey(acme.member)]
  assert.equal((await call('DELETE', `/api/api-keys/${revoked.id}`, { as: acme.member })).status, 204)
  await expire(expired.id)
  for (const key of [makeApiKey(), revoked.key, expired.key]) {
    const answer = await call('GET', '/api/auth/me', { as: { key } })
    assert.equal(answer.status, 401)
    assert.equal(answer.body.detail, 'The API key is not valid, has expired or was revoked')
  }
})

test('a revoked key leaves the list, its record stays, and revoking again is 404', async () => {
  const key = await makeKey(acme.owner)
  assert.equal((await call('DELETE', `/api/api-keys/${key.id}`, { as: acme.owner })).status, 204)
  assert.equal((await call('DELETE', `/api/api-keys/${key.id}`, { as: acme.owner })).status, 404)
  const listed = await call('GET', '/api/api-keys', { as: acme.owner })
  assert.ok(!listed.text.includes(key.id))
  const row = await services.db.first<{ revoked_at: string }>(sql`SELECT revoked_at FROM api_keys WHERE id = ${key.id}`)
  assert.ok(row?.revoked_at)
})

test("a member revokes only own keys, an admin anybody's", async () => {
  const ofAdmin = await makeKey(acme.admin)
  const refused = await call('DELETE', `/api/api-keys/${ofAdmin.id}`, { as: acme.member })
  assert.equal(refused.status, 403)
  assert.equal((await call('GET', '/api/auth/me', { as: ofAdmin })).status, 200)
  const ofMember = await makeKey(acme.member)
  assert.equal((await call('DELETE', `/api/api-keys/${ofMember.id.toUpperCase()}`, { as: acme.admin })).status, 204)
})

test('of a token and a key only the token counts', async () => {
  const key = await makeKey(acme.owner)
  const both = await call('GET', '/api/auth/me', { as: { access_token: acme.viewer.access_token, key: key.key } })
  assert.equal(both.body.id, acme.viewer.id)
  for (const authorization of ['Bearer nonsense', 'Bearer', 'Basic dXNlcjpwYXNz', '', acme.owner.refresh_token]) {
    const answer = await call('GET', '/api/auth/me', { headers: { authorization, 'x-api-key': key.key } })
    assert.equal(answer.status, 401, authorization)
  }
})

test('a key may do what its creator may do at that moment', async () => {
  const key = await makeKey(acme.member)
  const create = (name: string) => call('POST', '/api/domains', { as: key, body: { name } })
  const makeAnother = () => call('POST', '/api/api-keys', { as: key, body: { name: 'another' } })
  assert.deepEqual([(await create('one')).status, (await makeAnother()).status], [403, 201])
  await setRole(app, acme.id, acme.member.id, 'admin')
  assert.deepEqual([(await create('one')).status, (await makeAnother()).status], [201, 201])
  await setRole(app, acme.id, acme.member.id, 'viewer')
  assert.deepEqual([(await create('two')).status, (await makeAnother()).status], [403, 403])
  await setRole(app, acme.id, acme.member.id, 'member')
  assert.equal((await makeAnother()).status, 201)
})

test("a key created with a key belongs to that key's creator", async () => {
  const first = await makeKey(acme.member)
  const second = await call('POST', '/api/api-keys', { as: first, body: { name: 'second' } })
  assert.equal((await call('GET', '/api/auth/me', { as: second.body })).body.id, acme.member.id)
})

test('the last use is known within a second', async () => {
  const key = await makeKey(acme.owner)
  const lastUse = async (): Promise<string | null> =>
    (await services.db.first<{ at: string }>(sql`SELECT last_used_at AS at FROM api_keys WHERE id = ${key.id}`))!.at
  const began = Date.now()
  await Promise.all(Array.from({ length: 20 }, () => call('GET', '/api/auth/me', { as: key })))
  const used = Date.now()
  // A read that begins a second after the last use must see it, however long reading takes.
  let [readBegan, last] = [used, await lastUse()]
  while (last === null && readBegan < used + 1000) [readBegan, last] = [Date.now(), await lastUse()]
  assert.ok(last !== null, 'a second after its use the key still looks unused')
  assert.ok(Date.parse(last) >= began && Date.parse(last) <= used, `${last} is not when it was used`)
  const listed = await call('GET', '/api/api-keys', { as: acme.owner })
  assert.ok(listed.body.find((item: { id: string }) => item.id === key.id).last_used_at >= last)
})

test('recording a use never fails a request: a failed write is repeated with the next use', async () => {
  const key = await makeKey(acme.owner)
  const { createKeyUses } = await import('../../src/tenancy/api-key-uses.ts')
  const { db } = services
  const errors: Error[] = []
  let broken = true
  const flaky: typeof db = {
    ...db,
    execute: (statement) => (broken ? Promise.reject(new Error('down')) : db.execute(statement)),
  }
  const uses = createKeyUses(flaky, (error) => errors.push(error))
  uses.note(key.id)
  await uses.flush()
  assert.equal(errors.length, 1)
  broken = false
  await uses.flush()
  const row = await db.first<{ at: string | null }>(sql`SELECT last_used_at AS at FROM api_keys WHERE id = ${key.id}`)
  assert.ok(row?.at)
})

test('a session that a key opened may do no more than the key', async () => {
  const host = await addOrganization(app)
  const key = await makeKey(acme.member)
  const invited = await call('POST', '/api/users/invite', {
    as: host,
    body: { email: 'somebody@example.com', role: 'admin' },
  })
  const accepted = await call('POST', '/api/users/invitations/accept', {
    as: key,
    body: { token: tokenOf(invited.body.invite_url) },
  })
  assert.equal(accepted.status, 200)
  const session = accepted.body
  const switched = await call('POST', '/api/auth/switch', { as: session, body: { organization_id: acme.id } })
  assert.equal(switched.status, 403)
  assert.equal((await call('GET', '/api/domains', { as: session })).status, 200)
  await call('DELETE', `/api/api-keys/${key.id}`, { as: acme.owner })
  assert.equal((await call('GET', '/api/domains', { as: session })).status, 401)
  const refreshed = await call('POST', '/api/auth/refresh', { body: { refresh_token: session.refresh_token } })
  assert.equal(refreshed.status, 401)
})
