/** The configuration that a run used: kept with the run, without secrets, whatever becomes of the pipeline's own. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { createSecretBox } from '../../src/database/secret-box.ts'
import { forgetUsedConfigs, KEPT_PER_PIPELINE, usedConfigOf } from '../../src/runs/used-config.ts'
import { scheduleDuePipelines } from '../../src/scheduler/due-pipelines.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db, box, log } = app.services
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')
const as = acme.member
const SECRET = 'tok-5d1e9a'
const authentication = { type: 'api_key', params: { token: SECRET } }
const MASK = '********'
const masked = { type: 'api_key', params: { token: MASK } }

const post = async (url: string, body?: object) => {
  const made = await app.call('POST', url, { as, body })
  assert.equal(made.status, 201, made.text)
  return made.body
}
const createPipeline = (source: object, more: object = {}) =>
  post('/api/pipelines', { name: 'P', config: { source, destination: { name: 'file' }, ...more } })
const configOf = (run: string, who: object = as) => app.call('GET', `/api/pipelines/runs/${run}/config`, { as: who })

test('it is what was resolved at the trigger, with secrets masked for everybody', async () => {
  const saved = await post('/api/saved/sources', {
    name: 'S',
    connector_name: 'dummy',
    config: { authentication, config: { records: 3 } },
  })
  const source = { saved_connector_id: saved.id, stream: 'plants', config: { seed: 9 } }
  const pipeline = await createPipeline(source, { run: { keep_output: false } })
  const run = await post(`/api/pipelines/${pipeline.id}/run`)
  await app.call('PUT', `/api/saved/sources/${saved.id}`, { as, body: { config: { config: { records: 4 } } } })
  await app.call('DELETE', `/api/saved/sources/${saved.id}`, { as })
  for (const who of [acme.owner, acme.viewer]) {
    const { status, body, text } = await configOf(run.id, who)
    assert.equal(status, 200, text)
    assert.deepEqual(body.problem, null)
    assert.deepEqual(body.config.source, {
      name: 'dummy',
      stream: 'plants',
      authentication: masked,
      config: { records: 3, seed: 9 },
      saved_connector_id: saved.id,
    })
    assert.deepEqual(body.config.destination, { name: 'file', config: {} })
    assert.deepEqual([body.config.sync.write, body.config.run], ['replace', { keep_output: false }])
    assert.equal(text.includes(SECRET), false)
  }
})

test('it is stored encrypted, under an id that cannot be computed from it', async () => {
  const pipeline = await createPipeline({ name: 'dummy', stream: 'plants', config: { seed: 90210 } })
  const run = await post(`/api/pipelines/${pipeline.id}/run`)
  const shown = (await configOf(run.id)).body
  const stored = await db.query<{ config_box: Buffer }>(sql`SELECT * FROM used_configs`)
  for (const part of ['plants', '90210', 'dummy'])
    assert.equal(
      stored.some((row) => row.config_box.includes(part)),
      false,
      part,
    )
  const named = await db.first<{ used_config_id: string }>(sql`SELECT used_config_id FROM runs WHERE id = ${run.id}`)
  const text = JSON.stringify({ config: shown.config })
  const guess = createHash('sha256').update(text).digest('hex').slice(0, 8)
  assert.notEqual(named!.used_config_id.slice(0, 8), guess)
  const other = createSecretBox(['another key of more than thirty-two characters'])
  const pinned = { problem: 'x' }
  const own = { id: pipeline.id, organization_id: acme.id }
  assert.equal(usedConfigOf(box, own, pinned).id, usedConfigOf(box, own, pinned).id)
  assert.notEqual(usedConfigOf(box, own, pinned).id, usedConfigOf(other, own, pinned).id)
  assert.notEqual(usedConfigOf(box, own, pinned).id, usedConfigOf(box, { ...own, id: run.id }, pinned).id)
})

test('addresses lose user, password and query; in a custom source only booleans stay readable', async () => {
  const signed = 'https://key:pass@files.example/data.csv?X-Amz-Signature=5d1e9a#part'
  const file = await createPipeline({ name: 'file', stream: 'rows', config: { url: signed, header: false } })
  const shown = (await configOf((await post(`/api/pipelines/${file.id}/run`)).id)).body.config.source.config
  assert.deepEqual(shown, { url: 'https://********@files.example/data.csv?********#********', header: false })
  const code = `
from svc.source.base import AbstractSource


class Vault(AbstractSource):
    def get_streams(self):
        return ['items']

    def check_connection(self):
        return True

    def get_records(self, stream):
        yield {}
`
  await post('/api/custom-sources', { name: 'Vault', source_name: 'vault', code })
  const settings = { pin: 4711, deep: [{ code: 1234, on: true, none: null, text: '' }], name: 'x' }
  const custom = await createPipeline({ name: 'vault', stream: 'items', config: settings })
  const masks = { pin: MASK, deep: [{ code: MASK, on: true, none: null, text: '' }], name: MASK }
  const run = await post(`/api/pipelines/${custom.id}/run`)
  assert.deepEqual((await configOf(run.id)).body.config.source.config, masks)
  const read = await app.call('GET', `/api/pipelines/${custom.id}`, { as: acme.viewer })
  assert.deepEqual(read.body.config.source.config, masks, 'readers of the pipeline see no more')
  const sent = { ...read.body.config, sync: { write: 'append' } }
  assert.equal((await app.call('PUT', `/api/pipelines/${custom.id}`, { as, body: { config: sent } })).status, 200)
  const kept = await app.call('GET', `/api/pipelines/${custom.id}`, { as })
  assert.deepEqual(kept.body.config.source.config, settings, 'masked numbers are restored too')
})

test('without connectors:read, a saved connector is its id and what the pipeline overrides', async () => {
  const source = await post('/api/saved/sources', {
    name: 'S',
    connector_name: 'postgres',
    config: { config: { host: 'db.internal.example', user: 'reader', password: SECRET } },
  })
  const destination = await post('/api/saved/destinations', {
    name: 'D',
    connector_name: 'postgres',
    config: { host: 'warehouse.example', user: 'writer', password: SECRET },
  })
  const config = {
    source: { saved_connector_id: source.id, stream: 'public.orders', config: { schemas: ['public'] } },
    destination: { saved_connector_id: destination.id, config: { table: 'orders' } },
  }
  const pipeline = await post('/api/pipelines', { name: 'P', config })
  const run = await post(`/api/pipelines/${pipeline.id}/run`)
  const whole = (await configOf(run.id, acme.viewer)).body.config
  assert.deepEqual(
    [whole.source.config.host, whole.destination.config.host],
    ['db.internal.example', 'warehouse.example'],
  )
  assert.deepEqual([whole.source.saved_connector_id, whole.destination.saved_connector_id], [source.id, destination.id])
  const scopes = { permissions: ['pipelines:read'] }
  const key = (await app.call('POST', '/api/api-keys', { as, body: { name: 'k', scopes } })).body
  const { body, text } = await configOf(run.id, key)
  assert.deepEqual([body.config.source, body.config.destination], [config.source, config.destination])
  for (const hidden of ['internal', 'warehouse', 'reader', 'writer']) assert.ok(!text.includes(hidden), hidden)
})

test('a pipeline that is changed before every run keeps the configurations of its last runs', async () => {
  const pipeline = await createPipeline({ name: 'dummy', stream: 'plants' })
  await db.execute(sql`
    WITH kept AS (
      INSERT INTO used_configs (id, organization_id, pipeline_id, config_box)
      SELECT gen_random_uuid(), ${acme.id}, ${pipeline.id}, '' FROM generate_series(1, ${KEPT_PER_PIPELINE + 20}) RETURNING id)
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, used_config_id) SELECT ${acme.id}, ${pipeline.id}, 'manual', false, id FROM kept`)
  const newest = await post(`/api/pipelines/${pipeline.id}/run`)
  await forgetUsedConfigs(db)
  const kept = await db.query<{ number: number }>(sql`
    SELECT row_number() OVER (ORDER BY seq DESC) AS number FROM runs r LEFT JOIN used_configs c ON c.id = r.used_config_id
     WHERE r.pipeline_id = ${pipeline.id} AND c.id IS NOT NULL`)
  assert.equal(kept.length, KEPT_PER_PIPELINE)
  assert.equal((await configOf(newest.id)).status, 200)
  const oldest = await db.first<{ id: string }>(
    sql`SELECT id FROM runs WHERE pipeline_id = ${pipeline.id} ORDER BY seq LIMIT 1`,
  )
  assert.equal((await configOf(oldest!.id)).status, 404)
})

test('one that cannot be decrypted is a conflict that says what to do', async () => {
  const pipeline = await createPipeline({ name: 'dummy', stream: 'plants', config: { seed: 8 } })
  const run = await post(`/api/pipelines/${pipeline.id}/run`)
  await db.execute(
    sql`UPDATE used_configs c SET config_box = decode('00', 'hex') FROM runs r WHERE r.id = ${run.id} AND c.id = r.used_config_id`,
  )
  const { status, body } = await configOf(run.id)
  assert.match(`${status} ${body.detail}`, /^409 The configuration of this run cannot be decrypted/)
})

test('a run that ended keeps it, and runs of the same configuration share one row', async () => {
  const pipeline = await createPipeline({ name: 'dummy', stream: 'plants', authentication })
  const runs = [await post(`/api/pipelines/${pipeline.id}/run`), await post(`/api/pipelines/${pipeline.id}/run`)]
  await db.execute(sql`UPDATE pipelines SET schedule = '* * * * *', next_run_at = now() WHERE id = ${pipeline.id}`)
  for (const run of runs) await app.call('POST', `/api/pipelines/runs/${run.id}/cancel`, { as })
  await scheduleDuePipelines(db, box, log)
  const rows = await db.query<{ id: string; triggered_by: string }>(
    sql`SELECT id, triggered_by FROM runs WHERE pipeline_id = ${pipeline.id}`,
  )
  assert.equal(rows.filter((row) => row.triggered_by === 'schedule').length, 1)
  for (const { id } of rows) assert.deepEqual((await configOf(id)).body.config.source.authentication, masked)
  const kept = await db.query(sql`SELECT 1 FROM used_configs WHERE pipeline_id = ${pipeline.id}`)
  assert.equal(kept.length, 1)
  const changed = { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } }
  await app.call('PUT', `/api/pipelines/${pipeline.id}`, { as, body: { config: changed } })
  const later = await post(`/api/pipelines/${pipeline.id}/run`)
  assert.equal((await configOf(later.id)).body.config.source.stream, 'creatures')
  assert.equal((await configOf(runs[0].id)).body.config.source.stream, 'plants')
})

test('a configuration that could not be resolved says why', async () => {
  const saved = await post('/api/saved/sources', { name: 'S', connector_name: 'dummy', config: {} })
  const pipeline = await createPipeline({ saved_connector_id: saved.id, stream: 'plants' })
  await app.call('DELETE', `/api/saved/sources/${saved.id}`, { as })
  const run = await post(`/api/pipelines/${pipeline.id}/run`)
  const { body } = await configOf(run.id)
  assert.equal(body.config, null)
  assert.match(body.problem, /was deleted/)
})

test('another organization, and a run of an earlier release, have none; with the pipeline it is gone', async () => {
  const pipeline = await createPipeline({ name: 'dummy', stream: 'plants' })
  const run = await post(`/api/pipelines/${pipeline.id}/run`)
  assert.equal((await configOf(run.id, stranger)).status, 404)
  await db.execute(sql`UPDATE runs SET used_config_id = NULL WHERE id = ${run.id}`)
  assert.equal((await configOf(run.id)).status, 404)
  await app.call('DELETE', `/api/pipelines/${pipeline.id}`, { as })
  assert.equal((await configOf(run.id)).status, 404)
  assert.deepEqual(await db.query(sql`SELECT 1 FROM used_configs WHERE pipeline_id = ${pipeline.id}`), [])
})

test('it stays small, whatever a config holds', async () => {
  const text = (characters: number) => 'x'.repeat(characters)
  const source = (queries: object) => ({
    name: 'postgres',
    stream: 'q',
    config: { host: 'db.example', user: 'u', database: 'd', queries: { q: 'SELECT 1', ...queries } },
  })
  const long = await createPipeline(source({ long: `SELECT ${text(5000)}` }))
  const shown = (await configOf((await post(`/api/pipelines/${long.id}/run`)).id)).body.config
  assert.match(shown.source.config.queries.long, /^SELECT x{993}… \(4007 more characters\)$/)
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`q${index}`, `SELECT ${text(500)}`]))
  const huge = await createPipeline(source(many))
  const { body } = await configOf((await post(`/api/pipelines/${huge.id}/run`)).id)
  assert.deepEqual(body, { config: null, problem: 'The configuration is too large to be kept.' })
})
