/** The routes that look into the output of a run; what a statement may do is tested in engine/query-output.test.ts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerPerson } from '../harness/app.ts'
import { type PipelineSketch, startEngine } from '../harness/engine.ts'

const engine = await startEngine()
await engine.work()
const { call, person } = engine

async function runOf(config: PipelineSketch): Promise<string> {
  const run = await engine.trigger(await engine.createPipeline(config))
  await engine.finished(run)
  return run
}
const query = (run: string, body: object, as: typeof person = person) =>
  call('POST', `/api/pipelines/runs/${run}/query`, { as, body })
const sample = (run: string, search = '', as: typeof person = person) =>
  call('GET', `/api/pipelines/runs/${run}/output/sample${search}`, { as })

const lines = await runOf({ dummy: { records: 30 } })
const parquet = await runOf({ dummy: { records: 30 }, destination: { name: 'file', config: { format: 'parquet' } } })

test('a query answers with columns, rows and whether they are all', async () => {
  for (const run of [lines, parquet]) {
    const { status, body, text } = await query(run, {
      sql: 'SELECT count(*) AS n, min(_record_id) AS first FROM output',
    })
    assert.equal(status, 200, text)
    assert.deepEqual(Object.keys(body).sort(), ['columns', 'execution_time_ms', 'rows', 'truncated'])
    assert.deepEqual(body.columns, [
      { name: 'n', type: 'int64' },
      { name: 'first', type: 'text' },
    ])
    assert.deepEqual([body.rows, body.truncated], [[[30, 'creatures-1']], false])
  }
})

test('as CSV a header says whether the rows are all', async () => {
  const answer = await query(lines, { sql: 'SELECT _record_id FROM output', format: 'csv', limit: 2 })
  assert.equal(answer.headers['content-type'], 'text/csv; charset=utf-8')
  assert.equal(answer.headers['x-truncated'], 'true')
  assert.equal(answer.text, '_record_id\ncreatures-1\ncreatures-2\n')
})

test('a sample shows the first rows', async () => {
  for (const run of [lines, parquet]) {
    const { body } = await sample(run, '?rows=5')
    assert.deepEqual([body.rows.length, body.truncated], [5, true])
    assert.equal(body.columns[0].name, '_record_id')
  }
})

test('an answer ends at 16 MB, and a statement at the memory of a call', async () => {
  const large = await query(lines, { sql: "SELECT repeat('x', 1000000) FROM range(20)" })
  assert.deepEqual([large.status, large.body.rows?.length, large.body.truncated], [200, 16, true])
  const greedy = await query(lines, { sql: "SELECT length(repeat('x', 2000000000))" })
  assert.equal(greedy.status, 400)
  assert.match(greedy.body.detail, /memory/i)
})

test('what is wrong is refused in words', async () => {
  for (const body of [
    {},
    { sql: '' },
    { sql: 'SELECT 1', limit: 0 },
    { sql: 'SELECT 1', limit: 10_001 },
    { sql: 'SELECT 1', format: 'xml' },
  ])
    assert.equal((await query(lines, body)).status, 400)
  for (const search of ['?rows=0', '?rows=1001', '?sql=x']) assert.equal((await sample(lines, search)).status, 400)
  const refused = await query(lines, { sql: 'DROP VIEW output' })
  assert.equal(refused.status, 400)
  assert.match(refused.body.detail, /Only one statement that reads/)
})

test('the refusal of an output that is a database names the source that reads it', async () => {
  for (const name of ['sqlite', 'duckdb']) {
    const run = await runOf({ dummy: { records: 3 }, destination: { name, config: {} } })
    const { status, body } = await query(run, { sql: 'SELECT 1' })
    assert.equal(status, 400)
    assert.match(body.detail, new RegExp(`is a ${name} database.*the source ${name}`))
  }
})

test('without an output, and for another organization, there is nothing', async () => {
  const stranger = await registerPerson(engine, 'Stranger')
  assert.equal((await query(lines, { sql: 'SELECT 1' }, stranger)).status, 404)
  assert.equal((await sample(lines, '', stranger)).status, 404)
  const failed = await runOf({ dummy: { records: 5, fail_after: 1 } })
  for (const answer of [await query(failed, { sql: 'SELECT 1' }), await sample(failed)]) {
    assert.equal(answer.status, 404)
    assert.match(answer.body.detail, /did not succeed/)
  }
})
