/** The configuration that a run used: kept with the run, without secrets, whatever becomes of the pipeline's own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { scheduleDuePipelines } from '../../src/scheduler/tick.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db, box, log } = app.services
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')
const as = acme.member
const SECRET = 'tok-5d1e9a'
const authentication = { type: 'api_key', params: { token: SECRET } }
const masked = { type: 'api_key', params: { token: '********' } }

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
  const stored = await db.query(sql`SELECT config FROM run_configs`)
  assert.equal(JSON.stringify(stored).includes(SECRET), false, 'no secret is stored in plain')
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
  const kept = await db.query(sql`SELECT 1 FROM run_configs WHERE pipeline_id = ${pipeline.id}`)
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
  await db.execute(sql`UPDATE runs SET used_config_hash = NULL WHERE id = ${run.id}`)
  assert.equal((await configOf(run.id)).status, 404)
  await app.call('DELETE', `/api/pipelines/${pipeline.id}`, { as })
  assert.equal((await configOf(run.id)).status, 404)
  assert.deepEqual(await db.query(sql`SELECT 1 FROM run_configs WHERE pipeline_id = ${pipeline.id}`), [])
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
