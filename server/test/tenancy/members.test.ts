import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { type Organization, type Person, registerOrganization, startApp } from '../harness/app.ts'
import { addOrganization, addPerson, tokenOf } from './world.ts'

const app = await startApp()
const { call, services } = app
const acme: Organization = await registerOrganization(app)

const changeRole = (as: Person, target: Person, role: unknown) =>
  call('PUT', `/api/users/${target.id}/role`, { as, body: { role } })
const remove = (as: Person, target: Person) => call('DELETE', `/api/users/${target.id}`, { as })

test('members are listed newest first, and read one by one', async () => {
  const list = await call('GET', '/api/users', { as: acme.viewer })
  assert.deepEqual(
    list.body.map((member: { role: string }) => member.role),
    ['viewer', 'member', 'admin', 'owner'],
  )
  assert.equal(list.headers['x-total-count'], '4')
  const { body } = await call('GET', `/api/users/${acme.owner.id}`, { as: acme.viewer })
  assert.deepEqual(body, list.body[3])
  assert.deepEqual(Object.keys(body).sort(), ['avatar_url', 'email', 'id', 'joined_at', 'name', 'role'])
  const page = await call('GET', '/api/users?limit=1&offset=1', { as: acme.viewer })
  assert.deepEqual([page.body.length, page.body[0].role, page.headers['x-total-count']], [1, 'member', '4'])
  const capitals = await call('GET', `/api/users/${acme.owner.id.toUpperCase()}`, { as: acme.viewer })
  assert.equal(capitals.body.id, acme.owner.id)
})

test('a role is changed, without avatar_url in the answer, and counts from the next request on', async () => {
  const person = await addPerson(app, acme.id)
  const answer = await changeRole(acme.admin, person, 'admin')
  assert.equal(answer.status, 200)
  assert.deepEqual(Object.keys(answer.body).sort(), ['email', 'id', 'joined_at', 'name', 'role'])
  assert.equal(answer.body.role, 'admin')
  const me = await call('GET', '/api/auth/me', { as: person })
  assert.equal(me.body.role, 'admin')
  assert.ok(me.body.permissions.includes('users:invite'))
  assert.equal((await changeRole(acme.owner, person, 'viewer')).status, 200)
  assert.equal((await call('GET', '/api/users/invitations', { as: person })).status, 403)
})

test('rule 1: nobody is made owner by a role change', async () => {
  const answer = await changeRole(acme.owner, acme.member, 'owner')
  assert.equal(answer.status, 400)
  assert.match(answer.body.detail, /transfer/)
})

test('a role that does not exist is refused with those that do', async () => {
  for (const role of ['king', '', null, 1, ['admin'], 'Admin']) {
    const answer = await changeRole(acme.owner, acme.member, role)
    assert.equal(answer.status, 400, JSON.stringify(role))
    assert.match(answer.body.detail, /viewer.*member.*admin/)
  }
})

test('rules 2 and 5: an admin neither changes nor removes another admin; the owner does', async () => {
  const other = await addPerson(app, acme.id, 'Other', 'admin')
  assert.equal((await changeRole(acme.admin, other, 'member')).status, 403)
  assert.equal((await remove(acme.admin, other)).status, 403)
  assert.equal((await changeRole(acme.owner, other, 'member')).status, 200)
  assert.equal((await remove(acme.admin, other)).status, 204)
})

test('rules 3 and 4: the owner keeps the role and stays', async () => {
  for (const as of [acme.admin, acme.owner]) {
    assert.equal((await changeRole(as, acme.owner, 'admin')).status, 403)
    assert.equal((await remove(as, acme.owner)).status, 403)
  }
})

test('an admin may step down and leave', async () => {
  const stepsDown = await addPerson(app, acme.id, 'Down', 'admin')
  assert.equal((await changeRole(stepsDown, stepsDown, 'viewer')).status, 200)
  const leaves = await addPerson(app, acme.id, 'Leaves', 'admin')
  assert.equal((await remove(leaves, leaves)).status, 204)
  assert.equal((await call('GET', '/api/auth/me', { as: leaves })).status, 401)
})

test("a removed member's tokens and keys stop at once, here alone, and do not come back", async () => {
  const person = await addPerson(app, acme.id, 'Gone', 'member')
  const key = (await call('POST', '/api/api-keys', { as: person, body: { name: 'k' } })).body
  const home = await registerOrganization(app, 'Home')
  const join = async (host: Person, as: Person) => {
    const invited = await call('POST', '/api/users/invite', { as: host, body: { email: as.email, role: 'member' } })
    return call('POST', '/api/users/invitations/accept', { as, body: { token: tokenOf(invited.body.invite_url) } })
  }
  const elsewhere: Person = { ...person, ...(await join(home.owner, person)).body }
  assert.equal((await call('GET', '/api/auth/me', { as: key })).status, 200)

  assert.equal((await remove(acme.admin, person)).status, 204)
  const stopped = async () => {
    assert.equal((await call('GET', '/api/auth/me', { as: person })).status, 401)
    assert.equal((await call('GET', '/api/auth/me', { as: key })).status, 401)
    const refreshed = await call('POST', '/api/auth/refresh', { body: { refresh_token: person.refresh_token } })
    assert.equal(refreshed.status, 401)
  }
  await stopped()
  assert.equal((await call('GET', '/api/auth/me', { as: elsewhere })).status, 200)
  assert.equal((await call('GET', `/api/users/${person.id}`, { as: acme.owner })).status, 404)
  assert.equal((await remove(acme.admin, person)).status, 404)

  assert.equal((await join(acme.owner, elsewhere)).status, 200)
  await stopped()
})

test('the ownership moves in one step', async () => {
  const { id, owner, member, admin } = await registerOrganization(app, 'Moving')
  const transfer = (as: Person, user_id: string) =>
    call('POST', '/api/organization/transfer-ownership', { as, body: { user_id } })
  assert.equal((await transfer(admin, admin.id)).status, 403)
  assert.equal((await transfer(owner, owner.id)).status, 400)
  assert.equal((await transfer(owner, acme.member.id)).status, 404)
  assert.equal((await transfer(owner, 'nobody')).status, 400)
  const answer = await transfer(owner, member.id.toUpperCase())
  assert.equal(answer.status, 200)
  assert.equal(answer.body.message, 'Moving member is now the owner')
  const roles = await services.db.query<{ user_id: string; role: string }>(
    sql`SELECT user_id, role FROM memberships WHERE organization_id = ${id} AND role IN ('owner', 'admin')`,
  )
  assert.deepEqual(Object.fromEntries(roles.map((row) => [row.user_id, row.role])), {
    [member.id]: 'owner',
    [owner.id]: 'admin',
    [admin.id]: 'admin',
  })
  assert.equal((await transfer(owner, owner.id)).status, 403)
  assert.equal((await remove(member, owner)).status, 204)
})

test('the invitations of somebody who may no longer invite are cancelled', async () => {
  const previewOf = (token: string) => call('GET', `/api/users/invitations/preview?token=${token}`)
  for (const [end, reason] of [
    [(target: Person) => changeRole(acme.owner, target, 'member'), 'the inviter was demoted'],
    [(target: Person) => remove(acme.owner, target), 'the inviter was removed'],
  ] as const) {
    const inviter = await addPerson(app, acme.id, 'Inviter', 'admin')
    const invite = async (as: Person) => {
      const email = `${randomUUID()}@example.com`
      return (await call('POST', '/api/users/invite', { as, body: { email, role: 'admin' } })).body
    }
    const [theirs, another] = [await invite(inviter), await invite(acme.admin)]
    assert.equal((await previewOf(tokenOf(theirs.invite_url))).status, 200)
    assert.ok((await end(inviter)).status < 300)
    const refused = await previewOf(tokenOf(theirs.invite_url))
    assert.match(`${refused.status} ${refused.body.detail}`, /^400 token: this invitation was cancelled/)
    assert.equal((await previewOf(tokenOf(another.invite_url))).status, 200, "somebody else's stays")
    const [line] = (await call('GET', `/api/audit?object_id=${theirs.id}&limit=1`, { as: acme.owner })).body
    assert.deepEqual([line.action, line.details.reason], ['invitation.cancelled', reason])
  }
})

test('an admin who becomes the owner, or a former owner, keeps the invitations they sent', async () => {
  const [former, heir] = [await addOrganization(app), acme.member]
  await services.db.execute(
    sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${former.organization_id}, ${heir.id}, 'admin')`,
  )
  const body = { email: `${randomUUID()}@example.com`, role: 'viewer' }
  const sent = await call('POST', '/api/users/invite', { as: former, body })
  const moved = await call('POST', '/api/organization/transfer-ownership', { as: former, body: { user_id: heir.id } })
  assert.equal(moved.status, 200)
  assert.equal((await call('GET', `/api/users/invitations/preview?token=${tokenOf(sent.body.invite_url)}`)).status, 200)
})
