/** Database files as outputs, through the API: what one run leaves to the next, and what ends a query that never does. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { startEngine } from '../harness/engine.ts'
import { startFileServer } from '../harness/file-server.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
await engine.work()
const { call, person } = engine
const folder = await mkdtemp(path.join(tmpdir(), 'sluice-built-'))
after(() => rm(folder, { recursive: true }))

const destination = (table = 'creatures') => ({ name: 'sqlite', config: { table } })
const dummy = (records: number, more: object = {}) => ({
  name: 'dummy',
  stream: 'creatures',
  config: { records, ...more },
})
const append = { write: 'append' }
type Config = { source: Record<string, unknown>; destination: Record<string, unknown>; sync: object }

async function finish(pipeline: string): Promise<{ id: string; status: string; error: string | null }> {
  return engine.finished(await engine.trigger(pipeline))
}

async function succeed(pipeline: string): Promise<string> {
  const { id, status, error } = await finish(pipeline)
  assert.equal(status, 'success', `${error}\n${await engine.logs(id)}`)
  return id
}

async function change(pipeline: string, config: Config): Promise<void> {
  const answer = await call('PUT', `/api/pipelines/${pipeline}`, { as: person, body: { config } })
  assert.equal(answer.status, 200, answer.text)
}

/** The tables of the file that a run left, with the number of their rows. */
async function countRows(run: string): Promise<Record<string, number>> {
  const authorization = `Bearer ${person.access_token}`
  const answer = await engine.app.inject({ url: `/api/pipelines/runs/${run}/output`, headers: { authorization } })
  assert.equal(answer.statusCode, 200)
  assert.equal(answer.headers['content-type'], 'application/vnd.sqlite3')
  assert.match(String(answer.headers['content-disposition']), /\.sqlite"?$/)
  const file = path.join(folder, `${run}.sqlite`)
  await writeFile(file, answer.rawPayload)
  const db = new DatabaseSync(file)
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[]
  const counts = tables.map(({ name }) => [name, db.prepare(`SELECT count(*) AS n FROM "${name}"`).get()!.n])
  db.close()
  return Object.fromEntries(counts)
}

test('a run goes on from the last success, whatever failed or was cancelled in between', async () => {
  const base: Config = { source: dummy(10), destination: destination(), sync: append }
  const pipeline = await engine.createPipeline(base)
  assert.deepEqual(await countRows(await succeed(pipeline)), { creatures: 10 })
  await change(pipeline, { ...base, source: dummy(10, { fail_after: 5 }) })
  assert.equal((await finish(pipeline)).status, 'failed')
  await change(pipeline, { ...base, source: dummy(1000, { delay_ms: 50 }) })
  const cancelled = await engine.trigger(pipeline)
  await engine.until(cancelled, ({ records_read }) => records_read > 0)
  assert.equal((await call('POST', `/api/pipelines/runs/${cancelled}/cancel`, { as: person })).status, 200)
  await change(pipeline, base)
  assert.deepEqual(await countRows(await succeed(pipeline)), { creatures: 20 })
  await change(pipeline, {
    ...base,
    sync: { write: 'upsert', primary_key: ['_record_id'] },
    destination: destination('other'),
  })
  const other = await succeed(pipeline)
  assert.deepEqual(await countRows(other), { other: 10 }, 'another table is another file')
})

test('a file that is gone fails the run, until the state of the pipeline is deleted', async () => {
  const pipeline = await engine.createPipeline({ source: dummy(10), destination: destination(), sync: append })
  const first = await succeed(pipeline)
  await engine.services.db.execute(
    sql`UPDATE runs SET output_file = NULL, output_file_size = NULL, output_stored_bytes = NULL, output_parts = NULL WHERE id = ${first}`,
  )
  const failed = await finish(pipeline)
  assert.equal(failed.status, 'failed')
  assert.match(failed.error!, new RegExp(`^destination: The file of the last successful run ${first} is gone`))
  assert.equal((await call('DELETE', `/api/pipelines/${pipeline}/state`, { as: person })).status, 204)
  assert.deepEqual(await countRows(await succeed(pipeline)), { creatures: 10 })
})

test('a pipeline whose output is the file must keep it', async () => {
  const config = { source: dummy(1), destination: destination(), run: { keep_output: false } }
  const fault = /config\.run\.keep_output: must be true with sqlite/
  const refused = async (method: 'POST' | 'PUT', url: string, body: object): Promise<void> => {
    const answer = await call(method, url, { as: person, body })
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.body.detail, fault)
  }
  await refused('POST', '/api/pipelines', { name: 'x', config })
  const pipeline = await engine.createPipeline({ source: dummy(1), destination: destination() })
  await refused('PUT', `/api/pipelines/${pipeline}`, { config })
  const { stream: _, ...source } = dummy(1)
  await refused('POST', '/api/pipelines/bulk', { streams: ['creatures'], config: { ...config, source } })
  const saved = await call('POST', '/api/saved/destinations', {
    as: person,
    body: { name: 'files', connector_name: 'sqlite', config: {} },
  })
  assert.equal(saved.status, 201, saved.text)
  await refused('POST', '/api/pipelines', {
    name: 'x',
    config: { ...config, destination: { saved_connector_id: saved.body.id } },
  })
  await refused('PUT', `/api/pipelines/${pipeline}`, {
    config: { ...config, destination: { saved_connector_id: saved.body.id, config: { table: 't' } } },
  })
  // A copy may change neither; the config that it copies was refused before.
  const incremental = { mode: 'incremental', write: 'replace' }
  const answer = await call('POST', '/api/pipelines', {
    as: person,
    body: { name: 'x', config: { ...config, run: {}, sync: incremental } },
  })
  assert.equal(answer.status, 400)
  assert.match(answer.body.detail, /replace would drop what earlier incremental runs loaded/)
})

test('a view that never ends blocks nobody: a cancel and the time limit end its process', async () => {
  const file = path.join(folder, 'endless.sqlite')
  const db = new DatabaseSync(file)
  db.exec(
    'CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS c FROM n',
  )
  db.close()
  const server = await startFileServer()
  after(() => server.close())
  const fetched = Promise.withResolvers<void>()
  const url = server.put('endless.sqlite', await readFile(file), () => {
    fetched.resolve()
    return true
  })
  const sketch = { source: { name: 'sqlite', stream: 'endless', config: { url } } }
  const pipeline = await engine.createPipeline(sketch)
  const run = await engine.trigger(pipeline)
  await fetched.promise
  assert.equal((await call('POST', `/api/pipelines/runs/${run}/cancel`, { as: person })).status, 200)
  assert.equal((await engine.finished(run)).status, 'cancelled')
  const { config } = engine.services
  const before = config.RUN_TIMEOUT_MINUTES
  config.RUN_TIMEOUT_MINUTES = 0.02
  try {
    assert.match((await finish(pipeline)).error!, /^timeout: the run took longer than 0.02 minutes/)
  } finally {
    config.RUN_TIMEOUT_MINUTES = before
  }
})
