import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openSaved, type SavedRow } from '../../src/connections/references.ts'
import { MASK } from '../../src/connectors/settings/secrets.ts'
import { sql } from '../../src/database/database.ts'
import { openPipelineConfig } from '../../src/pipelines/resolve.ts'
import { type Answer, registerOrganization, startApp } from '../harness/app.ts'

const app = await startApp({ SECRETS: 'write_only' })
const { call, services } = app
const { db, box } = services
const acme = await registerOrganization(app)

const postgres = { host: 'db.example.com', user: 'reader', password: 'hunter2-hunter2', database: 'shop' }
const bearer = { type: 'bearer', params: { token: 'bearer-token-1' } }
const pipelineConfig = {
  source: { name: 'file', stream: 'rows', authentication: bearer, config: { url: 'https://a.example/x.csv' } },
  destination: { name: 'postgres', config: { ...postgres, table: 't' } },
}

async function create(path: string, body: object): Promise<string> {
  const answer = await call('POST', path, { as: acme.owner, body })
  assert.equal(answer.status, 201, answer.text)
  assert.ok(!/hunter2|bearer-token/.test(answer.text))
  return answer.body.id
}
const put = (path: string, config: unknown): Promise<Answer> => call('PUT', path, { as: acme.owner, body: { config } })
const refusedAt = ({ status, body }: Answer) => `${status} ${String(body.detail).split(': ')[0]}`

describe('a saved connector', () => {
  const save = () =>
    create('/api/saved/destinations', { name: 'd', connector_name: 'postgres', config: { ...postgres, table: 't' } })
  const stored = async (id: string) => {
    const row = await db.first<SavedRow>(sql`SELECT * FROM saved_connectors WHERE id = ${id}`)
    return openSaved(box, row!).config
  }

  test('is shown with masks to everyone, including the owner', async () => {
    const id = await save()
    for (const as of [acme.owner, acme.admin, acme.member, acme.viewer]) {
      const { body } = await call('GET', `/api/saved/destinations/${id}`, { as })
      assert.deepEqual(body.config, { ...postgres, password: MASK, table: 't' })
    }
    const source = await create('/api/saved/sources', {
      name: 's',
      connector_name: 'file',
      config: { authentication: bearer, config: { url: 'https://a.example/x.csv' } },
    })
    const { body } = await call('GET', `/api/saved/sources/${source}`, { as: acme.owner })
    assert.equal(body.config.authentication.params.token, MASK)
  })

  test('keeps the stored secrets when the mask is sent back, also with changed overridable settings', async () => {
    const id = await save()
    const { config } = (await call('GET', `/api/saved/destinations/${id}`, { as: acme.owner })).body
    assert.equal((await put(`/api/saved/destinations/${id}`, config)).status, 200)
    assert.equal((await put(`/api/saved/destinations/${id}`, { ...config, table: 'other' })).status, 200)
    assert.deepEqual(await stored(id), { ...postgres, table: 'other' })
    assert.equal((await put(`/api/saved/destinations/${id}`, { ...config, password: 'new-password' })).status, 200)
    assert.equal((await stored(id))!.password, 'new-password')
  })

  test('does not send a kept secret to another server, nor lower its protection', async () => {
    const id = await save()
    const path = `/api/saved/destinations/${id}`
    const { config } = (await call('GET', path, { as: acme.owner })).body
    assert.equal(refusedAt(await put(path, { ...config, host: 'evil.example' })), '400 config.host')
    assert.equal(refusedAt(await put(path, { ...config, port: 9999 })), '400 config.port')
    assert.equal(refusedAt(await put(path, { ...config, tls: { mode: 'disable' } })), '400 config.tls')
    const { user: _, ...without } = config
    assert.equal(refusedAt(await put(path, without)), '400 config.user')
    assert.deepEqual(await stored(id), { ...postgres, table: 't' })
    const moved = { ...config, host: 'new.example.com', password: 'sent-again-1' }
    assert.equal((await put(path, moved)).status, 200, 'with the secret itself everything may change')
  })

  test('of a custom source keeps all its settings with its secrets', async () => {
    const source_name = 'own_source'
    await db.execute(sql`
      WITH made AS (INSERT INTO custom_sources (organization_id, name, source_name) VALUES (${acme.id}, 'Own', ${source_name}) RETURNING id)
      INSERT INTO custom_source_versions (custom_source_id, version, code, streams) SELECT id, 1, 'x = 1', '["a"]' FROM made`)
    const config = { authentication: bearer, config: { base_url: 'https://a.example', page_size: 10 } }
    const id = await create('/api/saved/sources', { name: 's', connector_name: source_name, config })
    const path = `/api/saved/sources/${id}`
    const shown = (await call('GET', path, { as: acme.owner })).body.config
    assert.deepEqual(shown.config, { base_url: MASK, page_size: MASK })
    assert.equal((await put(path, shown)).status, 200)
    const moved = { ...shown, config: { ...shown.config, base_url: 'https://evil.example' } }
    assert.equal(refusedAt(await put(path, moved)), '400 config.config.base_url')
    assert.deepEqual(await stored(id), config)
    for (const page_size of [10, 11]) {
      const guess = { ...shown, config: { ...shown.config, page_size } }
      assert.equal(refusedAt(await put(path, guess)), '400 config.config.page_size', 'right or wrong')
    }
  })

  test('does not tell whether a secret was guessed while another one is kept', async () => {
    const tls = { mode: 'require', cert: '-----BEGIN CERTIFICATE-----', key: '-----BEGIN KEY-----' }
    const config = { ...postgres, tls, table: 't' }
    const id = await create('/api/saved/destinations', { name: 'd', connector_name: 'postgres', config })
    const guess = (password: string) =>
      put(`/api/saved/destinations/${id}`, { ...config, tls: { ...tls, key: MASK }, password })
    const wrong = await guess('hunter3-hunter3')
    assert.equal(refusedAt(wrong), '400 config.password')
    assert.deepEqual((await guess(postgres.password)).body, wrong.body)
    const pipeline = await create('/api/pipelines', {
      name: 'p',
      config: { ...pipelineConfig, destination: { name: 'postgres', config } },
    })
    for (const password of ['hunter3-hunter3', postgres.password]) {
      const destination = { name: 'postgres', config: { ...config, tls: { ...tls, key: MASK }, password } }
      const answer = await put(`/api/pipelines/${pipeline}`, { ...pipelineConfig, destination })
      assert.equal(refusedAt(answer), '400 config.destination.config.password')
    }
  })
})

describe('a pipeline', () => {
  const stored = async (id: string) => {
    const row = await db.first<{ id: string; organization_id: string; config_box: Buffer }>(
      sql`SELECT id, organization_id, config_box FROM pipelines WHERE id = ${id}`,
    )
    return openPipelineConfig(box, row!)
  }
  const make = () => create('/api/pipelines', { name: 'p', config: pipelineConfig })
  const read = async (id: string) => (await call('GET', `/api/pipelines/${id}`, { as: acme.owner })).body.config

  test('is shown with masks to everyone, and keeps its secrets when they are sent back', async () => {
    const id = await make()
    const shown = await read(id)
    assert.equal(shown.source.authentication.params.token, MASK)
    assert.equal(shown.destination.config.password, MASK)
    const path = `/api/pipelines/${id}`
    const changed = {
      ...shown,
      source: { ...shown.source, config: { ...shown.source.config, format: 'csv' } },
      destination: { ...shown.destination, config: { ...shown.destination.config, table: 'other' } },
      run: { max_attempts: 2 },
    }
    assert.equal((await put(path, changed)).status, 200)
    const now = await stored(id)
    assert.deepEqual(now.source.authentication, bearer)
    assert.deepEqual(now.destination.config, { ...postgres, table: 'other' })
  })

  test('does not send a kept secret to another address or another connector', async () => {
    const id = await make()
    const shown = await read(id)
    const path = `/api/pipelines/${id}`
    const withSource = (change: object) => put(path, { ...shown, source: { ...shown.source, ...change } })
    assert.equal(
      refusedAt(await withSource({ config: { url: 'https://evil.example/x.csv' } })),
      '400 config.source.config.url',
    )
    assert.equal(refusedAt(await withSource({ name: 'own_source', stream: 'a' })), '400 config.source.name')
    const basic = { type: 'basic', params: { username: MASK, password: MASK } }
    assert.match(refusedAt(await withSource({ authentication: basic })), /^400 config.source.authentication/)
    assert.deepEqual((await stored(id)).source.authentication, bearer)
    const elsewhere = { ...shown, destination: { name: 'file', config: {} } }
    assert.equal((await put(path, elsewhere)).status, 200, 'the other side is free')
  })
})

test('by default callers with write permission can read secrets, and a mask may be sent back with any change', async () => {
  const readable = await startApp()
  const org = await registerOrganization(readable)
  const made = await readable.call('POST', '/api/pipelines', {
    as: org.owner,
    body: { name: 'p', config: pipelineConfig },
  })
  const read = await readable.call('GET', `/api/pipelines/${made.body.id}`, { as: org.owner })
  assert.equal(read.body.config.destination.config.password, postgres.password)
  const moved = structuredClone(read.body.config)
  moved.destination.config.password = MASK
  moved.destination.config.host = 'new.example.com'
  const changed = await readable.call('PUT', `/api/pipelines/${made.body.id}`, {
    as: org.owner,
    body: { config: moved },
  })
  assert.equal(changed.status, 200, changed.text)
})
