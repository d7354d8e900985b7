import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { type Person, registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { addOrganization, tokenOf } from './world.ts'

const app = await startApp({ FRONTEND_URL: 'https://console.example.com/app/', INVITATION_DAYS: '3' })
const { call, services } = app
const acme = await registerOrganization(app)

let count = 0
const newAddress = () => `invited.${++count}@example.com`
const invite = (email: string, role: unknown = 'member', as: Person = acme.admin) =>
  call('POST', '/api/users/invite', { as, body: { email, role } })
const accept = (as: Person, token: unknown) => call('POST', '/api/users/invitations/accept', { as, body: { token } })
const preview = (token: string) => call('GET', `/api/users/invitations/preview?token=${encodeURIComponent(token)}`)
const pending = async () =>
  (await call('GET', '/api/users/invitations', { as: acme.admin })).body.map((item: { email: string }) => item.email)
const expire = (id: string) =>
  services.db.execute(sql`UPDATE invitations SET expires_at = now() - interval '1 second' WHERE id = ${id}`)
const outsider = () => addOrganization(app)

test('an invitation is made, shown, listed and accepted', async () => {
  const email = newAddress()
  const { status, body } = await invite(` ${email.toUpperCase()} `, 'admin')
  assert.equal(status, 201)
  const { id, invite_url, created_at, expires_at } = body
  assert.deepEqual(body, {
    id,
    email,
    role: 'admin',
    invited_by_name: 'Acme admin',
    invite_url,
    created_at,
    expires_at,
  })
  assert.equal(Date.parse(expires_at) - Date.parse(created_at), 3 * 86_400_000)
  const token = tokenOf(invite_url)
  assert.match(token, /^[\w-]{43}$/)
  assert.equal(invite_url, `https://console.example.com/app/accept-invitation?token=${token}`)

  const list = await call('GET', '/api/users/invitations', { as: acme.owner })
  const { invite_url: _, ...item } = body
  assert.deepEqual(list.body[0], item)
  const shown = await preview(token)
  assert.equal(shown.status, 200)
  assert.deepEqual(shown.body, {
    email,
    role: 'admin',
    organization_name: 'Acme Owner Ltd',
    invited_by_name: 'Acme admin',
    expires_at,
    is_expired: false,
  })

  const person = await registerPerson(app, 'Outsider')
  const joined = await accept(person, token)
  assert.equal(joined.status, 200)
  const { access_token, refresh_token, ...rest } = joined.body
  assert.deepEqual(rest, {
    message: 'You are now a member of Acme Owner Ltd',
    organization_name: 'Acme Owner Ltd',
    role: 'admin',
    user: { id: person.id, email: person.email, name: 'Outsider', role: 'admin' },
    organization: { id: acme.id, name: 'Acme Owner Ltd', slug: rest.organization.slug },
  })
  assert.ok(refresh_token)
  const me = await call('GET', '/api/auth/me', { as: { access_token } })
  assert.deepEqual([me.body.organization.id, me.body.role], [acme.id, 'admin'])
  const before = await call('GET', '/api/auth/me', { as: person })
  assert.equal(before.body.organization.id, person.organization_id, 'the older token stays in its organization')
  assert.ok(!(await pending()).includes(email))
})

test('the token is stored only as a hash', async () => {
  const { body } = await invite(newAddress())
  const row = await services.db.first<{ text: string }>(
    sql`SELECT to_jsonb(i)::text AS text FROM invitations i WHERE id = ${body.id}`,
  )
  assert.ok(!row!.text.includes(tokenOf(body.invite_url)))
})

test('a token is used once', async () => {
  const { body } = await invite(newAddress())
  const token = tokenOf(body.invite_url)
  assert.equal((await accept(await outsider(), token)).status, 200)
  const again = await accept(await outsider(), token)
  assert.equal(again.status, 400)
  assert.match(again.body.detail, /was used/)
  assert.equal((await preview(token)).status, 400)
})

test('an unknown token is 404, for preview and accept', async () => {
  const token = randomBytes(32).toString('base64url')
  assert.equal((await preview(token)).status, 404)
  assert.equal((await accept(acme.member, token)).status, 404)
  for (const wrong of ['', null, 5, 'x'.repeat(201)]) assert.equal((await accept(acme.member, wrong)).status, 400)
  assert.equal((await call('GET', '/api/users/invitations/preview')).status, 400)
})

test('rule 6: nobody is invited as owner', async () => {
  for (const role of ['owner', 'king', null, '']) {
    const answer = await invite(newAddress(), role, acme.owner)
    assert.equal(answer.status, 400)
    assert.match(answer.body.detail, /role: must be one of "admin", "member", "viewer"/)
  }
  for (const email of ['', 'nobody', 'a@b@c', 'a b@example.com', '@example.com', null, 5])
    assert.equal((await invite(email as string)).status, 400, String(email))
})

test('rule 7: a member is not invited, nor does one accept', async () => {
  const answer = await invite(acme.viewer.email.toUpperCase())
  assert.equal(answer.status, 409)
  assert.match(answer.body.detail, /member/)
  const { body } = await invite(newAddress())
  assert.equal((await accept(acme.viewer, tokenOf(body.invite_url))).status, 409)
  assert.equal((await accept(await outsider(), tokenOf(body.invite_url))).status, 200, 'the invitation is still open')
})

test('rule 8: an address has one pending invitation; cancelled and expired ones make room', async () => {
  const email = newAddress()
  const first = await invite(email)
  const second = await invite(email.toUpperCase(), 'viewer')
  assert.equal(second.status, 409)
  assert.match(second.body.detail, /pending/)
  assert.equal((await call('DELETE', `/api/users/invitations/${first.body.id}`, { as: acme.owner })).status, 204)
  const third = await invite(email)
  assert.equal(third.status, 201)
  await expire(third.body.id)
  assert.ok(!(await pending()).includes(email))
  assert.equal((await invite(email)).status, 201)
  assert.equal((await pending()).filter((item: string) => item === email).length, 1)
  const elsewhere = await addOrganization(app)
  assert.equal((await invite(email, 'member', elsewhere)).status, 201)
})

test('a cancelled invitation is gone from the list, and cancelling again is 404', async () => {
  const { body } = await invite(newAddress())
  const cancel = () => call('DELETE', `/api/users/invitations/${body.id}`, { as: acme.admin })
  assert.equal((await cancel()).status, 204)
  assert.equal((await cancel()).status, 404)
  assert.ok(!(await pending()).includes(body.email))
  const answer = await accept(await outsider(), tokenOf(body.invite_url))
  assert.equal(answer.status, 400)
  assert.match(answer.body.detail, /was cancelled/)
})

test('an expired invitation is shown as such and no longer accepted, by a member neither', async () => {
  const { body } = await invite(newAddress())
  await expire(body.id)
  const token = tokenOf(body.invite_url)
  const shown = await preview(token)
  assert.deepEqual([shown.status, shown.body.is_expired], [200, true])
  for (const person of [await outsider(), acme.viewer]) {
    const answer = await accept(person, token)
    assert.equal(answer.status, 400)
    assert.match(answer.body.detail, /has expired/)
  }
  assert.equal((await call('DELETE', `/api/users/invitations/${body.id}`, { as: acme.admin })).status, 404)
  await invite(body.email)
  assert.equal((await preview(token)).body.is_expired, true, 'also after it made room for another')
})

test('the audit log names the invited address and who accepted', async () => {
  const { body } = await invite(newAddress())
  const person = await outsider()
  await accept(person, tokenOf(body.invite_url))
  const log = await call('GET', `/api/audit?object_id=${body.id}`, { as: acme.admin })
  assert.deepEqual(
    log.body.map((line: { action: string; actor_id: string; details: object }) => [
      line.action,
      line.actor_id,
      line.details,
    ]),
    [
      ['invitation.accepted', person.id, { invited: body.email, accepted_by: person.email, role: 'member' }],
      ['invitation.created', acme.admin.id, { email: body.email, role: 'member' }],
    ],
  )
  assert.ok(!log.text.includes(tokenOf(body.invite_url)))
})
