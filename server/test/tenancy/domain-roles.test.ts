import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Person, registerOrganization, startApp } from '../harness/app.ts'
import { pipelineConfig } from './things.ts'
import { addPerson } from './world.ts'

const app = await startApp()
const { call } = app
const acme = await registerOrganization(app)

let names = 0
const makeDomain = async (): Promise<string> =>
  (await call('POST', '/api/domains', { as: acme.owner, body: { name: `Domain ${++names}` } })).body.id
const grant = (as: Person, userId: string, domain_id: unknown, role: unknown) =>
  call('POST', `/api/users/${userId}/domain-roles`, { as, body: { domain_id, role } })
const update = (as: Person, domainId: string) =>
  call('PUT', `/api/domains/${domainId}`, { as, body: { description: 'changed' } })

test('a domain role is granted, listed, shown in me and removed', async () => {
  const [person, domain_id] = [await addPerson(app, acme.id), await makeDomain()]
  const granted = await grant(acme.admin, person.id, domain_id.toUpperCase(), 'member')
  assert.equal(granted.status, 201)
  const { id, created_at } = granted.body
  const view = { id, user_id: person.id, domain_id, domain_name: `Domain ${names}`, role: 'member', created_at }
  assert.deepEqual(granted.body, view)
  const list = await call('GET', `/api/users/${person.id}/domain-roles`, { as: acme.viewer })
  assert.deepEqual([list.body, list.headers['x-total-count']], [[view], '1'])
  const me = await call('GET', '/api/auth/me', { as: person })
  assert.deepEqual(me.body.domain_roles, [view])
  assert.ok(!me.body.permissions.includes('pipelines:write'), 'permissions are those in the whole organization')
  const revoke = () => call('DELETE', `/api/users/${person.id}/domain-roles/${domain_id}`, { as: acme.admin })
  assert.equal((await revoke()).status, 204)
  assert.equal((await revoke()).status, 404)
  assert.deepEqual((await call('GET', '/api/auth/me', { as: person })).body.domain_roles, [])
})

test('rule 9: the role is admin or member', async () => {
  const domain_id = await makeDomain()
  for (const role of ['owner', 'viewer', '', null, 1]) {
    const answer = await grant(acme.owner, acme.viewer.id, domain_id, role)
    assert.equal(answer.status, 400, String(role))
    assert.match(answer.body.detail, /role: must be one of "admin", "member"/)
  }
  for (const wrong of [null, 'x', 5])
    assert.equal((await grant(acme.owner, acme.viewer.id, wrong, 'member')).status, 400)
})

test('rule 10: only the owner grants the admin role', async () => {
  const domain_id = await makeDomain()
  const refused = await grant(acme.admin, acme.viewer.id, domain_id, 'admin')
  assert.equal(refused.status, 403)
  assert.match(refused.body.detail, /owner/)
  assert.equal((await grant(acme.owner, acme.viewer.id, domain_id, 'admin')).status, 201)
})

test('rule 11: a second role in the same domain is refused', async () => {
  const [person, domain_id] = [await addPerson(app, acme.id), await makeDomain()]
  assert.equal((await grant(acme.owner, person.id, domain_id, 'member')).status, 201)
  assert.equal((await grant(acme.owner, person.id, domain_id, 'member')).status, 409)
  assert.equal((await grant(acme.owner, person.id, domain_id, 'admin')).status, 409)
  assert.equal((await grant(acme.owner, person.id, await makeDomain(), 'admin')).status, 201)
})

test('an unknown member and an unknown or foreign domain are 404', async () => {
  const other = await registerOrganization(app, 'Other')
  const foreign = (await call('POST', '/api/domains', { as: other.owner, body: { name: 'Foreign' } })).body.id
  assert.equal((await grant(acme.owner, acme.viewer.id, foreign, 'member')).status, 404)
  assert.equal((await grant(acme.owner, other.viewer.id, await makeDomain(), 'member')).status, 404)
})

test('an admin of a domain changes it, and nothing else', async () => {
  const [person, here, elsewhere] = [await addPerson(app, acme.id), await makeDomain(), await makeDomain()]
  assert.equal((await update(person, here)).status, 403)
  assert.equal((await grant(acme.owner, person.id, here, 'admin')).status, 201)
  assert.equal((await update(person, here)).status, 200)
  assert.equal((await update(person, here.toUpperCase())).status, 200)
  assert.equal((await update(person, elsewhere)).status, 403)
  assert.equal((await call('POST', '/api/domains', { as: person, body: { name: 'More' } })).status, 403)
  assert.equal((await call('DELETE', `/api/domains/${here}`, { as: person })).status, 403)
  assert.equal((await call('POST', '/api/api-keys', { as: person, body: { name: 'k' } })).status, 403)
  assert.equal((await grant(person, acme.viewer.id, here, 'member')).status, 403)
  await call('DELETE', `/api/users/${person.id}/domain-roles/${here}`, { as: acme.owner })
  assert.equal((await update(person, here)).status, 403)
})

test('a member of a domain does not change the domain', async () => {
  const [person, domain_id] = [await addPerson(app, acme.id), await makeDomain()]
  await grant(acme.owner, person.id, domain_id, 'member')
  assert.equal((await update(person, domain_id)).status, 403)
})

test('a role in a domain never lowers an admin', async () => {
  const [person, domain_id] = [await addPerson(app, acme.id, 'Admin', 'admin'), await makeDomain()]
  assert.equal((await grant(acme.owner, person.id, domain_id, 'member')).status, 201)
  assert.equal((await update(person, domain_id)).status, 200)
})

test('roles in domains go with the membership', async () => {
  const [person, domain_id] = [await addPerson(app, acme.id), await makeDomain()]
  await grant(acme.owner, person.id, domain_id, 'admin')
  assert.equal((await call('DELETE', `/api/users/${person.id}`, { as: acme.owner })).status, 204)
  assert.equal((await call('GET', `/api/users/${person.id}/domain-roles`, { as: acme.owner })).status, 404)
  assert.equal(
    (await call('DELETE', `/api/users/${person.id}/domain-roles/${domain_id}`, { as: acme.owner })).status,
    404,
  )
})

test('a member of a domain works on its pipelines and runs, and on no others', async () => {
  const [person, here, elsewhere] = [await addPerson(app, acme.id), await makeDomain(), await makeDomain()]
  await grant(acme.owner, person.id, here, 'member')
  const create = (as: Person, domain_id: string | null) =>
    call('POST', '/api/pipelines', { as, body: { name: 'p', config: pipelineConfig, domain_id } })
  const own = (await create(person, here)).body.id
  assert.ok(own)
  for (const domain of [elsewhere, null]) {
    assert.equal((await create(person, domain)).status, 403)
    const foreign = (await create(acme.member, domain)).body.id
    const act = async (method: string, path: string, body?: object) =>
      (await call(method, `/api/pipelines/${foreign}${path}`, { as: person, ...(body && { body }) })).status
    assert.equal(await act('GET', ''), 200)
    assert.equal(await act('PUT', '', { name: 'x' }), 403)
    assert.equal(await act('PUT', '', { domain_id: here }), 403, 'moving in needs write where it is')
    assert.equal(await act('POST', '/run'), 403)
    assert.equal(await act('POST', '/copy', {}), 403)
    assert.equal(await act('DELETE', ''), 403)
    const run = await call('POST', `/api/pipelines/${foreign}/run`, { as: acme.member })
    assert.equal((await call('POST', `/api/pipelines/runs/${run.body.id}/cancel`, { as: person })).status, 403)
    const move = await call('PUT', `/api/pipelines/${own}`, { as: person, body: { domain_id: domain } })
    assert.equal(move.status, 403, 'moving out needs write where it goes')
  }
  const run = await call('POST', `/api/pipelines/${own}/run`, { as: person })
  assert.equal(run.status, 201)
  assert.equal((await call('POST', `/api/pipelines/runs/${run.body.id}/cancel`, { as: person })).status, 200)
  assert.equal((await call('DELETE', `/api/pipelines/${own}`, { as: person })).status, 204)
})

test('a member of two domains moves a pipeline between them', async () => {
  const [person, one, two] = [await addPerson(app, acme.id), await makeDomain(), await makeDomain()]
  for (const domain of [one, two]) await grant(acme.owner, person.id, domain, 'member')
  const body = { name: 'p', config: pipelineConfig, domain_id: one.toUpperCase() }
  const created = await call('POST', '/api/pipelines', { as: person, body })
  assert.equal(created.status, 201, created.text)
  const moved = await call('PUT', `/api/pipelines/${created.body.id}`, {
    as: person,
    body: { domain_id: two.toUpperCase() },
  })
  assert.deepEqual([moved.status, moved.body.domain_id], [200, two])
})
