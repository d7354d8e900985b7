import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { RETURNED_AT_MOST } from '../../src/database/lists.ts'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db } = app.services
const owner = await registerPerson(app)
const get = (path: string) => app.call('GET', path, { as: owner })

/** Sources with as many and as long streams and settings as validation allows. */
const addSources = (prefix: string, count: number, streams: number, nameLength: number) =>
  db.execute(sql`
    WITH made AS (
      INSERT INTO custom_sources (organization_id, name, source_name)
      SELECT ${owner.organization_id}, 'S', ${prefix} || n FROM generate_series(1, ${count}::int) AS n RETURNING id)
    INSERT INTO custom_source_versions (custom_source_id, version, code, streams, config_schema)
    SELECT id, 1, 'x = 1',
           (SELECT jsonb_agg(rpad(n::text, ${nameLength}::int, 'x')) FROM generate_series(1, ${streams}::int) AS n),
           jsonb_build_object('config_fields', (SELECT jsonb_agg(jsonb_build_object('name', rpad(n::text, ${nameLength}::int, 'x'),
             'type_hint', NULL, 'required', true)) FROM generate_series(1, 500) AS n))
      FROM made`)

test('lists of sources are bounded, and state the number of streams', async () => {
  const { length: builtIn } = (await get('/api/connectors/sources')).text
  await addSources('huge_', 200, 1000, 500)
  for (const path of ['/api/connectors/sources', '/api/custom-sources']) {
    const { text, body } = await get(path)
    assert.ok(text.length < builtIn + 200 * 12 * 1024, `${path}: ${text.length} bytes`)
    const source = body.find(({ name, source_name }: { name: string; source_name?: string }) =>
      (source_name ?? name).startsWith('huge_'),
    )
    assert.equal(source.stream_count, 1000)
    assert.ok(source.streams.length >= 5 && source.streams.length < 10, `${source.streams.length} streams`)
    assert.match(source.streams[0], /^1x+$/)
  }
  const listed = await get('/api/connectors/sources')
  const { config_schema } = listed.body.find(({ name }: { name: string }) => name.startsWith('huge_'))
  assert.equal(config_schema.truncated, true)
  assert.deepEqual(Object.keys(config_schema.properties), config_schema.required)
})

test('a single source has all its streams', async () => {
  const [{ id, streams }] = (await get('/api/custom-sources?limit=1')).body
  assert.ok(streams.length < 1000)
  assert.equal((await get(`/api/custom-sources/${id}`)).body.streams.length, 1000)
  assert.equal((await get(`/api/custom-sources/${id}/versions/1`)).body.streams.length, 1000)
  const [version] = (await get(`/api/custom-sources/${id}/versions`)).body
  assert.deepEqual([version.streams, version.stream_count], [streams, 1000])
})

test('short lists are shown completely', async () => {
  await db.execute(sql`DELETE FROM custom_sources`)
  await addSources('short_', 1, 100, 3)
  const [item] = (await get('/api/custom-sources')).body
  assert.deepEqual([item.streams.length, item.stream_count], [100, 100])
  await db.execute(
    sql`UPDATE custom_source_versions SET streams = '["dynamic"]', config_schema = '{"config_fields": []}'`,
  )
  const source = (await get('/api/connectors/sources')).body.find(({ name }: { name: string }) => name === 'short_1')
  assert.deepEqual([source.streams, source.stream_count], [['dynamic'], null])
  assert.equal('truncated' in source.config_schema, false)
  const dummy = (await get('/api/connectors/sources')).body.find(({ name }: { name: string }) => name === 'dummy')
  assert.equal(dummy.stream_count, dummy.streams.length)
})

test('a list without a limit has at most ten thousand rows; the rest is available in pages', async () => {
  await db.execute(sql`
    INSERT INTO api_keys (organization_id, created_by, name, key_prefix, key_hash)
    SELECT ${owner.organization_id}, ${owner.id}, 'k', 'svc_live_abc', sha256(n::text::bytea) FROM generate_series(1, ${RETURNED_AT_MOST + 5}::int) AS n`)
  const all = await get('/api/api-keys')
  assert.equal(all.body.length, RETURNED_AT_MOST)
  assert.equal((await get(`/api/api-keys?offset=${RETURNED_AT_MOST}`)).body.length, 5)
})
