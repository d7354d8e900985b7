import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { type Person, registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { pipelineConfig } from '../tenancy/things.ts'

const app = await startApp({ ORG_MAX_PENDING_RUNS: '2' })
const { owner, member, viewer } = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')
const domain: string = (
  await app.call('POST', '/api/domains', { as: owner, body: { name: 'Sales', color: '#112233' } })
).body.id

async function create(domain_id: string | null = null): Promise<string> {
  const body = { name: 'x', config: pipelineConfig, domain_id }
  return (await app.call('POST', '/api/pipelines', { as: owner, body })).body.id
}
const act = (body: object, as: Person = owner) => app.call('POST', '/api/pipelines/actions', { as, body })
const read = async (id: string) => (await app.call('GET', `/api/pipelines/${id}`, { as: owner })).body

test('every action does what its route does, in the order of the ids', async () => {
  const ids = [await create(), await create(), await create()]
  assert.deepEqual(
    (await act({ action: 'disable', ids })).body,
    ids.map((id) => ({ id, ok: true, detail: 'disabled' })),
  )
  assert.equal((await read(ids[2]!)).enabled, false)
  await act({ action: 'enable', ids: [ids[2]] })
  assert.equal((await read(ids[2]!)).enabled, true)
  await act({ action: 'move', ids, domain_id: domain })
  assert.equal((await read(ids[0]!)).domain_id, domain)
  await act({ action: 'move', ids, domain_id: null })
  assert.equal((await read(ids[0]!)).domain_id, null)
  const runs = (await act({ action: 'run', ids })).body
  assert.deepEqual(
    runs.map(({ ok }: { ok: boolean }) => ok),
    [true, true, false],
  )
  assert.match(runs[0].detail, /^triggered run [0-9a-f-]{36}$/)
  assert.match(runs[2].detail, /2 pending runs/)
  assert.deepEqual((await act({ action: 'delete', ids })).body.at(-1), { id: ids[2], ok: true, detail: 'deleted' })
  assert.equal((await app.call('GET', `/api/pipelines/${ids[0]}`, { as: owner })).status, 404)
})

test('one that is refused does not stop the others, and each leaves its own audit entry', async () => {
  const [ours, theirs, missing] = [await create(), await create(domain), randomUUID()]
  await app.call('POST', `/api/users/${viewer.id}/domain-roles`, {
    as: owner,
    body: { domain_id: domain, role: 'member' },
  })
  const answer = await act({ action: 'disable', ids: [ours, missing, theirs] }, viewer)
  assert.deepEqual(
    answer.body.map(({ ok, detail }: { ok: boolean; detail: string }) => [ok, detail.slice(0, 30)]),
    [
      [false, 'You do not have the permission'],
      [false, 'Pipeline not found'],
      [true, 'disabled'],
    ],
  )
  const entries = await app.services.db.query<{ object_id: string }>(
    sql`SELECT object_id FROM audit_log WHERE actor_id = ${viewer.id} AND action = 'pipeline.updated'`,
  )
  assert.deepEqual(
    entries.map(({ object_id }) => object_id),
    [theirs],
  )
  // Moving needs the permission on both sides.
  const moved = await act({ action: 'move', ids: [theirs], domain_id: null }, viewer)
  assert.equal(moved.body[0].ok, false)
})

test('pipelines of another organization do not exist', async () => {
  const id = await create()
  for (const action of ['run', 'enable', 'delete'])
    assert.deepEqual((await act({ action, ids: [id] }, stranger)).body, [
      { id, ok: false, detail: 'Pipeline not found' },
    ])
  assert.equal((await act({ action: 'move', ids: [id], domain_id: domain }, stranger)).status, 404)
  assert.equal((await read(id)).enabled, true)
})

test('what is not a sensible request is refused as a whole', async () => {
  const id = await create()
  for (const body of [
    { action: 'copy', ids: [id] },
    { action: 'run', ids: [] },
    { action: 'run', ids: [id, id] },
    { action: 'run', ids: ['x'] },
    { action: 'run', ids: Array.from({ length: 1001 }, () => randomUUID()) },
    { action: 'move', ids: [id] },
    { action: 'run', ids: [id], domain_id: null },
  ])
    assert.equal((await act(body, member)).status, 400, JSON.stringify(body).slice(0, 100))
  assert.equal((await act({ action: 'move', ids: [id], domain_id: randomUUID() }, member)).status, 404)
})
