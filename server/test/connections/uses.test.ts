/** `?if_unused=true`: what is in use is not deleted, even if a reference is saved at the same moment. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { holdReferences } from '../../src/connections/uses.ts'
import { sql } from '../../src/database/database.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'

const app = await startApp()
const { db } = app.services
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')
const as = acme.member
const path = { source: '/api/saved/sources', destination: '/api/saved/destinations' }

const post = async (url: string, body: object, who: object = as) => {
  const made = await app.call('POST', url, { as: who, body })
  assert.equal(made.status, 201, made.text)
  return made.body
}
const saveSource = (connector_name = 'dummy') => post(path.source, { name: 'Zoo', connector_name, config: {} })
const saveDestination = () => post(path.destination, { name: 'Files', connector_name: 'file', config: {} })
const pipelineOf = (source: object, destination: object = { name: 'file' }, name = 'Uses it') => ({
  name,
  config: { source, destination },
})
const createCustom = () =>
  post('/api/custom-sources', {
    name: 'Sky',
    source_name: `sky_${randomUUID().slice(0, 8)}`,
    code: `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord


class Sky(AbstractSource):
    def get_streams(self) -> list:
        return ['planets']

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str):
        yield SourceRecord(id='1', data={})
`,
  })
const remove = (url: string, query = '?if_unused=true', who: object = as) =>
  app.call('DELETE', `${url}${query}`, { as: who })

test('a saved connector in use is deleted by default, and kept with if_unused', async () => {
  const source = await saveSource()
  const destination = await saveDestination()
  const config = pipelineOf({ saved_connector_id: source.id, stream: 'plants' }, { saved_connector_id: destination.id })
  const pipeline = await post('/api/pipelines', config)
  for (const url of [`${path.source}/${source.id}`, `${path.destination}/${destination.id}`]) {
    const refused = await remove(url)
    assert.equal(refused.status, 409, refused.text)
    assert.deepEqual(refused.body.used_by, {
      pipelines: [{ id: pipeline.id, name: 'Uses it' }],
      pipeline_count: 1,
      saved_sources: [],
      saved_source_count: 0,
    })
    assert.match(refused.body.detail, /^It is in use: 1 pipeline \('Uses it'\)\. /)
    assert.equal((await remove(url, '?if_unused=maybe')).status, 400)
  }
  assert.equal((await remove(`${path.source}/${source.id}`, '')).status, 204)
  await app.call('DELETE', `/api/pipelines/${pipeline.id}`, { as })
  assert.equal((await remove(`${path.destination}/${destination.id}`)).status, 204)
  assert.equal((await remove(`${path.destination}/${destination.id}`)).status, 404)
})

test('a list of custom sources says how many pipelines use each, and its version', async () => {
  const custom = await createCustom()
  await post('/api/pipelines', pipelineOf({ name: custom.source_name, stream: 'planets' }))
  const code = custom.code.replace("'planets'", "'planets', 'moons'")
  assert.equal((await app.call('PUT', `/api/custom-sources/${custom.id}`, { as, body: { code } })).status, 200)
  const list = await app.call('GET', '/api/custom-sources', { as: acme.viewer })
  const { version, pipeline_count, changed_at } = list.body.find(({ id }: { id: string }) => id === custom.id)
  assert.deepEqual([version, pipeline_count], [2, 1])
  assert.ok(changed_at > custom.created_at)
  assert.deepEqual((await app.call('GET', '/api/custom-sources', { as: stranger })).body, [])
})

test('a custom source is in use by pipelines and by saved sources', async () => {
  const custom = await createCustom()
  const url = `/api/custom-sources/${custom.id}`
  const pipeline = await post('/api/pipelines', pipelineOf({ name: custom.source_name, stream: 'planets' }))
  assert.deepEqual((await remove(url)).body.used_by.pipelines, [{ id: pipeline.id, name: 'Uses it' }])
  await app.call('DELETE', `/api/pipelines/${pipeline.id}`, { as })
  const saved = await saveSource(custom.source_name)
  const refused = await remove(url)
  assert.equal(refused.status, 409, refused.text)
  assert.deepEqual(refused.body.used_by, {
    pipelines: [],
    pipeline_count: 0,
    saved_sources: [{ id: saved.id, name: 'Zoo' }],
    saved_source_count: 1,
  })
  assert.equal((await remove(`${path.source}/${saved.id}`)).status, 204)
  assert.equal((await remove(url)).status, 204)
  assert.equal((await remove(`/api/custom-sources/${(await createCustom()).id}`, '')).status, 204)
})

test('the list is bounded, and pipelines that the caller may not read are only counted', async () => {
  const source = await saveSource()
  for (let number = 0; number < 23; number++)
    await post(
      '/api/pipelines',
      pipelineOf({ saved_connector_id: source.id, stream: 'plants' }, { name: 'file' }, `P${number}`),
    )
  const { body } = await remove(`${path.source}/${source.id}`)
  assert.deepEqual([body.used_by.pipelines.length, body.used_by.pipelines[0].name], [20, 'P22'])
  assert.equal(body.used_by.pipeline_count, 23)
  const scopes = { permissions: ['connectors:read', 'connectors:write'] }
  const key = await post('/api/api-keys', { name: 'Connectors only', expires_in_days: null, scopes })
  const blind = await remove(`${path.source}/${source.id}`, '?if_unused=true', { key: key.key })
  assert.equal(blind.status, 409, blind.text)
  assert.deepEqual([blind.body.used_by.pipelines, blind.body.used_by.pipeline_count], [[], 23])
  assert.equal(/P\d/.test(blind.text), false)
})

test('saved sources are named only to those who may read them', async () => {
  const custom = await createCustom()
  await saveSource(custom.source_name)
  const scopes = { permissions: ['custom_sources:read', 'custom_sources:write'] }
  const { key } = await post('/api/api-keys', { name: 'Sources only', expires_in_days: null, scopes })
  const blind = await remove(`/api/custom-sources/${custom.id}`, '?if_unused=true', { key })
  assert.equal(blind.status, 409, blind.text)
  assert.deepEqual([blind.body.used_by.saved_sources, blind.body.used_by.saved_source_count], [[], 1])
})

test('another organization neither deletes it nor learns who uses it', async () => {
  const source = await saveSource()
  await post('/api/pipelines', pipelineOf({ saved_connector_id: source.id, stream: 'plants' }))
  const answer = await remove(`${path.source}/${source.id}`, '?if_unused=true', stranger)
  assert.deepEqual([answer.status, answer.body], [404, { detail: 'Saved source not found' }])
})

test('a pipeline that is being saved is seen by the deletion', async () => {
  const source = await saveSource()
  const custom = await createCustom()
  const wanted = { source_id: source.id, source_name: custom.source_name, destination_id: null }
  for (const [url, columns] of [
    [`${path.source}/${source.id}`, { source_name: 'dummy', saved_source_id: source.id }],
    [`/api/custom-sources/${custom.id}`, { source_name: custom.source_name, saved_source_id: null }],
  ] as const) {
    const { answer } = await db.transaction(async (tx) => {
      await holdReferences(tx, acme.id, { ...wanted, source_id: columns.saved_source_id })
      await tx.execute(sql`
        INSERT INTO pipelines (organization_id, name, config_box, stream, source_name, saved_source_id)
        VALUES (${acme.id}, 'Late', '\\x00', 's', ${columns.source_name}, ${columns.saved_source_id})`)
      const answer = remove(url)
      await untilWaitingForLocks(db)
      return { answer }
    })
    const refused = await answer
    assert.equal(refused.status, 409, refused.text)
    assert.equal(refused.body.used_by.pipelines[0].name, 'Late')
  }
})

test('a pipeline that is saved while its connector is being deleted is refused', async () => {
  const source = await saveSource()
  const custom = await createCustom()
  const saved = await saveSource(custom.source_name)
  const uses = [
    ['POST', '/api/pipelines', pipelineOf({ saved_connector_id: source.id, stream: 'plants' })],
    ['POST', '/api/pipelines', pipelineOf({ name: custom.source_name, stream: 'planets' })],
    ['POST', '/api/pipelines', pipelineOf({ saved_connector_id: saved.id, stream: 'planets' })],
    ['POST', path.source, { name: 'New', connector_name: custom.source_name, config: {} }],
    [
      'POST',
      '/api/pipelines/bulk',
      { config: pipelineOf({ saved_connector_id: source.id }).config, streams: ['plants'] },
    ],
  ] as const
  const other = await post('/api/pipelines', pipelineOf({ name: 'dummy', stream: 'plants' }))
  const put = ['PUT', `/api/pipelines/${other.id}`, { config: uses[0][2].config }] as const
  for (const [method, url, body] of [...uses, put]) {
    const { answer } = await db.transaction(async (tx) => {
      await tx.execute(sql`SELECT 1 FROM saved_connectors WHERE id = ${source.id} FOR UPDATE`)
      await tx.execute(sql`SELECT 1 FROM custom_sources WHERE id = ${custom.id} FOR UPDATE`)
      const answer = app.call(method, url, { as, body })
      await untilWaitingForLocks(db)
      await tx.execute(sql`DELETE FROM saved_connectors WHERE id = ${source.id}`)
      await tx.execute(sql`DELETE FROM custom_sources WHERE id = ${custom.id}`)
      return { answer }
    })
    const refused = await answer
    assert.equal(refused.status, 400, `${method} ${url}: ${refused.text}`)
    await restore(source, custom)
  }

  /** The rows as they were, for the next use. */
  async function restore(savedRow: { id: string }, customRow: { id: string; source_name: string }): Promise<void> {
    await db.execute(sql`
      INSERT INTO saved_connectors (id, organization_id, type, name, connector_name, config_box)
      VALUES (${savedRow.id}, ${acme.id}, 'source', 'Zoo', 'dummy', '\\x00')`)
    await db.execute(sql`
      INSERT INTO custom_sources (id, organization_id, name, source_name) VALUES (${customRow.id}, ${acme.id}, 'Sky', ${customRow.source_name})`)
    await db.execute(sql`
      INSERT INTO custom_source_versions (custom_source_id, version, code, streams) VALUES (${customRow.id}, 1, '', '["planets"]')`)
  }
})
