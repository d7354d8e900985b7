import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { addPerson } from './world.ts'

const app = await startApp()
const { call, services } = app
const acme = await registerOrganization(app)
const as = acme.admin

const addPipeline = (organizationId: string, domainId: string | null) =>
  services.db.execute(sql`
    INSERT INTO pipelines (organization_id, name, config_box, stream, domain_id) VALUES (${organizationId}, 'p', '\\x00', 's', ${domainId})`)

test('a domain is created, read, listed, changed and deleted', async () => {
  const created = await call('POST', '/api/domains', {
    as,
    body: { name: ' Finance ', description: 'Money', color: '#12aBcF' },
  })
  assert.equal(created.status, 201)
  const { id, created_at } = created.body
  const view = { id, name: 'Finance', description: 'Money', color: '#12aBcF', created_at, updated_at: null }
  assert.deepEqual(created.body, view)
  assert.deepEqual((await call('GET', `/api/domains/${id}`, { as: acme.viewer })).body, view)
  const { updated_at: _, ...item } = view
  assert.deepEqual((await call('GET', '/api/domains', { as: acme.viewer })).body, [item])

  const changed = await call('PUT', `/api/domains/${id}`, { as, body: { color: '#000000' } })
  assert.equal(changed.status, 200)
  assert.deepEqual({ ...changed.body, updated_at: null }, { ...view, color: '#000000' })
  assert.ok(changed.body.updated_at)

  assert.equal((await call('DELETE', `/api/domains/${id}`, { as })).status, 204)
  assert.equal((await call('GET', `/api/domains/${id}`, { as })).status, 404)
  assert.equal((await call('DELETE', `/api/domains/${id}`, { as })).status, 404)
})

test('what is absent is null, null clears, and nothing given changes nothing', async () => {
  const { body } = await call('POST', '/api/domains', { as, body: { name: 'Bare' } })
  assert.deepEqual([body.description, body.color, body.updated_at], [null, null, null])
  const put = (change: object) => call('PUT', `/api/domains/${body.id}`, { as, body: change })
  assert.deepEqual((await put({})).body, body)
  assert.equal((await put({ description: 'x', color: '#ffffff' })).body.description, 'x')
  const cleared = (await put({ description: null, color: null })).body
  assert.deepEqual([cleared.name, cleared.description, cleared.color], ['Bare', null, null])
})

test('fields that do not fit are refused by name', async () => {
  const wrong: [object, RegExp][] = [
    [{}, /^name/],
    [{ name: '  ' }, /^name/],
    [{ name: null }, /^name/],
    [{ name: 5 }, /^name/],
    [{ name: 'n'.repeat(201) }, /^name/],
    [{ name: 'x', color: 'red' }, /^color/],
    [{ name: 'x', color: '#fff' }, /^color/],
    [{ name: 'x', color: '#12345g' }, /^color/],
    [{ name: 'x', color: '#1234567' }, /^color/],
    [{ name: 'x', description: 1 }, /^description/],
  ]
  for (const [body, detail] of wrong) {
    const answer = await call('POST', '/api/domains', { as, body })
    assert.equal(answer.status, 400, JSON.stringify(body))
    assert.match(answer.body.detail, detail)
  }
  const { body } = await call('POST', '/api/domains', { as, body: { name: 'Strict' } })
  assert.equal((await call('PUT', `/api/domains/${body.id}`, { as, body: { name: null } })).status, 400)
  for (const id of ['x', '1', `urn:uuid:${randomUUID()}`])
    assert.equal((await call('GET', `/api/domains/${id}`, { as })).status, 400, id)
})

test('a name is taken once in an organization, and again in another', async () => {
  const body = { name: 'Taken' }
  assert.equal((await call('POST', '/api/domains', { as, body })).status, 201)
  const again = await call('POST', '/api/domains', { as, body: { name: ' Taken ' } })
  assert.equal(again.status, 409)
  assert.match(again.body.detail, /Taken/)
  assert.equal((await call('POST', '/api/domains', { as, body: { name: 'taken' } })).status, 201)
  const other = await call('POST', '/api/domains', { as, body: { name: 'Other' } })
  assert.equal((await call('PUT', `/api/domains/${other.body.id}`, { as, body })).status, 409)
  assert.equal((await call('PUT', `/api/domains/${other.body.id}`, { as, body: { name: 'Other' } })).status, 200)
  const stranger = await registerPerson(app)
  assert.equal((await call('POST', '/api/domains', { as: stranger, body })).status, 201)
})

test('counts come only when asked for, and count the own pipelines', async () => {
  const owner = await registerPerson(app)
  const domains: string[] = []
  for (const name of ['none', 'two']) {
    domains.push((await call('POST', '/api/domains', { as: owner, body: { name } })).body.id)
  }
  await addPipeline(owner.organization_id, domains[1]!)
  await addPipeline(owner.organization_id, domains[1]!)
  await addPipeline(owner.organization_id, null)
  const plain = await call('GET', '/api/domains', { as: owner })
  assert.ok(plain.body.every((item: object) => !('pipeline_count' in item) && !('updated_at' in item)))
  const counted = await call('GET', '/api/domains?include_counts=true', { as: owner })
  assert.deepEqual(
    counted.body.map((item: { name: string; pipeline_count: number }) => [item.name, item.pipeline_count]),
    [
      ['two', 2],
      ['none', 0],
    ],
  )
  const python = await call('GET', '/api/domains?include_counts=True', { as: owner })
  assert.deepEqual(python.body, counted.body, 'as Python writes it')
})

test('a list is newest first, paged, clamped and counted', async () => {
  const owner = await registerPerson(app)
  await services.db.execute(sql`
    INSERT INTO domains (organization_id, name, created_at)
    SELECT ${owner.organization_id}, 'd' || n, now() + n * interval '1 ms' FROM generate_series(1, 10050) n`)
  const list = async (query: string) => {
    const { status, body, headers } = await call('GET', `/api/domains${query}`, { as: owner })
    return { status, names: status === 200 ? body.map((item: { name: string }) => item.name) : [], headers }
  }
  const first = await list('')
  assert.deepEqual([first.names.length, first.names[0], first.headers['x-total-count']], [100, 'd10050', '10000'])
  assert.deepEqual((await list('?limit=2&offset=1')).names, ['d10049', 'd10048'])
  assert.equal((await list('?limit=5000')).names.length, 1000)
  assert.deepEqual((await list('?limit=1000&offset=10049')).names, ['d1'])
  const beyond = await list('?offset=99999')
  assert.deepEqual([beyond.names, beyond.headers['x-total-count']], [[], '10000'])
  assert.deepEqual((await list(`?offset=${Number.MAX_SAFE_INTEGER}`)).names, [])
  for (const query of [
    '?limit=0',
    '?limit=-1',
    '?limit=x',
    '?limit=',
    '?limit=1.5',
    '?offset=-1',
    '?include_counts=2',
    '?offset=99999999999999999999999',
  ])
    assert.equal((await list(query)).status, 400, query)
})

test('a domain with pipelines is kept', async () => {
  const { body } = await call('POST', '/api/domains', { as, body: { name: 'Full' } })
  await addPipeline(acme.id, body.id)
  const answer = await call('DELETE', `/api/domains/${body.id}`, { as })
  assert.equal(answer.status, 403)
  assert.equal(answer.body.detail, 'Move or delete the pipelines of this domain first')
  await services.db.execute(sql`UPDATE pipelines SET domain_id = NULL WHERE domain_id = ${body.id}`)
  assert.equal((await call('DELETE', `/api/domains/${body.id}`, { as })).status, 204)
})

test('the roles in a domain are deleted with it, and no others', async () => {
  const person = await addPerson(app, acme.id)
  const ids: string[] = []
  for (const name of ['Goes', 'Stays']) {
    const { body } = await call('POST', '/api/domains', { as, body: { name } })
    ids.push(body.id)
    const granted = await call('POST', `/api/users/${person.id}/domain-roles`, {
      as,
      body: { domain_id: body.id, role: 'member' },
    })
    assert.equal(granted.status, 201)
  }
  assert.equal((await call('DELETE', `/api/domains/${ids[0]}`, { as })).status, 204)
  const roles = await call('GET', `/api/users/${person.id}/domain-roles`, { as })
  assert.deepEqual(
    roles.body.map((role: { domain_id: string }) => role.domain_id),
    [ids[1]],
  )
})
