import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { createSecretBox } from '../../src/database/secret-box.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')
const SECRET = 'tok-9f8e7d6c'
const config = { authentication: { type: 'api_key', params: { token: SECRET } }, config: { records: 3 } }
const body = { name: 'Zoo', connector_name: 'dummy', config, description: 'All of it' }

const save = async (more: object = {}) => {
  const made = await app.call('POST', '/api/saved/sources', { as: acme.member, body: { ...body, ...more } })
  assert.equal(made.status, 201, made.text)
  return made.body
}

test('a saved source is created, listed, read, changed and deleted', async () => {
  const made = await save()
  const { id, created_at, ...rest } = made
  assert.deepEqual(rest, { name: 'Zoo', type: 'source', connector_name: 'dummy', description: 'All of it' })
  const list = await app.call('GET', '/api/saved/sources', { as: acme.viewer })
  assert.deepEqual(list.body[0], made)
  assert.equal(list.text.includes(SECRET), false)
  const read = await app.call('GET', `/api/saved/sources/${id}`, { as: acme.member })
  assert.deepEqual(read.body, { ...made, config })
  const put = await app.call('PUT', `/api/saved/sources/${id}`, { as: acme.member, body: { name: 'Park' } })
  assert.deepEqual(put.body, { ...made, name: 'Park' })
  const kept = await app.call('GET', `/api/saved/sources/${id}`, { as: acme.member })
  assert.deepEqual(kept.body.config, config)
  assert.equal((await app.call('DELETE', `/api/saved/sources/${id}`, { as: acme.member })).status, 204)
  assert.equal((await app.call('GET', `/api/saved/sources/${id}`, { as: acme.member })).status, 404)
})

test('a saved destination has the same shape, with its own type', async () => {
  const made = await app.call('POST', '/api/saved/destinations', {
    as: acme.member,
    body: { name: 'Files', connector_name: 'file', config: { format: 'csv' } },
  })
  assert.equal(made.status, 201, made.text)
  assert.equal(made.body.type, 'destination')
  assert.equal(made.body.description, null)
  const read = await app.call('GET', `/api/saved/destinations/${made.body.id}`, { as: acme.member })
  assert.deepEqual(read.body, { ...made.body, config: { format: 'csv' } })
  assert.equal((await app.call('GET', `/api/saved/sources/${made.body.id}`, { as: acme.member })).status, 404)
})

test('callers without write permission see masks, and a mask that is sent back keeps the secret', async () => {
  const { id } = await save()
  const seen = await app.call('GET', `/api/saved/sources/${id}`, { as: acme.viewer })
  assert.deepEqual(seen.body.config, {
    authentication: { type: 'api_key', params: { token: '********' } },
    config: { records: 3 },
  })
  const masked = { ...seen.body.config, config: { records: 4 } }
  const put = await app.call('PUT', `/api/saved/sources/${id}`, { as: acme.member, body: { config: masked } })
  assert.equal(put.status, 200, put.text)
  const read = await app.call('GET', `/api/saved/sources/${id}`, { as: acme.member })
  assert.deepEqual(read.body.config, { ...config, config: { records: 4 } })
})

test('bad input is refused with its path', async () => {
  for (const [more, expected] of [
    [{ connector_name: 'dumy' }, "connector_name: there is no source 'dumy'; did you mean 'dummy'?"],
    [{ config: { records: 3 } }, 'config.records: unknown field; the known fields are authentication, config'],
    [{ config: { config: { recods: 3 } } }, "config.config.recods: unknown field; did you mean 'records'?"],
    [
      { config: { authentication: { type: 'api_key', params: {} } } },
      /^config\.authentication\.params\.token: is required/,
    ],
    [{ config: 5 }, /^config: must be an object/],
    [{ name: '' }, /^name: must not be empty/],
  ] as const) {
    const answer = await app.call('POST', '/api/saved/sources', { as: acme.member, body: { ...body, ...more } })
    assert.equal(answer.status, 400, answer.text)
    if (typeof expected === 'string') assert.equal(answer.body.detail, expected)
    else assert.match(answer.body.detail, expected)
  }
})

test('a viewer may not write', async () => {
  const { id } = await save()
  for (const [method, path] of [
    ['POST', '/api/saved/sources'],
    ['PUT', `/api/saved/sources/${id}`],
    ['DELETE', `/api/saved/sources/${id}`],
    ['POST', '/api/connectors/check'],
    ['POST', '/api/connectors/streams'],
  ] as const)
    assert.equal(
      (await app.call(method, path, { as: acme.viewer, body: method === 'DELETE' ? undefined : body })).status,
      403,
    )
})

test('it is not visible to another organization', async () => {
  const { id } = await save()
  for (const [method, path] of [
    ['GET', ''],
    ['PUT', ''],
    ['DELETE', ''],
    ['GET', '/pipelines'],
  ] as const) {
    const answer = await app.call(method, `/api/saved/sources/${id}${path}`, {
      as: stranger,
      ...(method === 'PUT' && { body: { name: 'Mine' } }),
    })
    assert.equal(answer.status, 404, `${method} ${path}`)
  }
  assert.deepEqual((await app.call('GET', '/api/saved/sources', { as: stranger })).body, [])
  assert.equal((await app.call('GET', `/api/saved/sources/${id}`, { as: acme.member })).body.name, 'Zoo')
})

test('it shows which pipelines use it', async () => {
  const { id } = await save()
  const pipeline = await app.call('POST', '/api/pipelines', {
    as: acme.member,
    body: {
      name: 'Uses it',
      config: { source: { saved_connector_id: id, stream: 'plants' }, destination: { name: 'file' } },
    },
  })
  const used = await app.call('GET', `/api/saved/sources/${id}/pipelines`, { as: acme.viewer })
  assert.deepEqual(
    used.body.map((each: { id: string }) => each.id),
    [pipeline.body.id],
  )
  assert.equal(used.headers['x-total-count'], '1')
  assert.equal(
    (await app.call('DELETE', `/api/saved/sources/${id}`, { as: acme.member })).status,
    204,
    'although in use',
  )
})

test('a lost key affects one object: it gets a clear message, and all others work', async () => {
  const { id } = await save({ name: 'Lost' })
  const place = { organization_id: acme.id, column: 'saved_connectors.config_box', row_id: id }
  const sealed = createSecretBox(['another key that nobody has any more']).seal(place, config)
  await app.services.db.execute(sql`UPDATE saved_connectors SET config_box = ${sealed} WHERE id = ${id}`)
  const read = await app.call('GET', `/api/saved/sources/${id}`, { as: acme.member })
  assert.equal(read.status, 409)
  assert.match(read.body.detail, /cannot be decrypted.*ENCRYPTION_KEY/)
  const list = await app.call('GET', '/api/saved/sources', { as: acme.member })
  assert.ok(list.body.some((each: { id: string }) => each.id === id))
  const used = await app.call('POST', '/api/pipelines', {
    as: acme.member,
    body: {
      name: 'P',
      config: { source: { saved_connector_id: id, stream: 'plants' }, destination: { name: 'file' } },
    },
  })
  assert.equal(used.status, 400)
  assert.match(used.body.detail, /^config\.source\.saved_connector_id: .*cannot be decrypted/)
  const renamed = await app.call('PUT', `/api/saved/sources/${id}`, { as: acme.member, body: { name: 'Still lost' } })
  assert.equal(renamed.status, 200)
  const mended = await app.call('PUT', `/api/saved/sources/${id}`, { as: acme.member, body: { config } })
  assert.equal(mended.status, 200, mended.text)
  assert.deepEqual((await app.call('GET', `/api/saved/sources/${id}`, { as: acme.member })).body.config, config)
})

test('a value copied to another row cannot be decrypted there', async () => {
  const [first, second] = [await save(), await save()]
  await app.services.db.execute(sql`
    UPDATE saved_connectors SET config_box = (SELECT config_box FROM saved_connectors WHERE id = ${first.id}) WHERE id = ${second.id}`)
  const read = await app.call('GET', `/api/saved/sources/${second.id}`, { as: acme.member })
  assert.equal(read.status, 409)
  assert.match(read.body.detail, /belongs to another row/)
})
