import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
await engine.work()
const { call, person } = engine

test('a run moves every record into its output and reports the result', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 25 } })
  const answer = await call('POST', `/api/pipelines/${pipeline}/run`, { as: person })
  assert.equal(answer.status, 201)
  assert.deepEqual(Object.keys(answer.body).sort(), ['created_at', 'id', 'pipeline_id', 'status', 'triggered_by'])
  assert.equal(answer.body.status, 'pending')
  assert.equal(answer.body.triggered_by, 'manual')
  await engine.finished(answer.body.id)
  const run = (await call('GET', `/api/pipelines/runs/${answer.body.id}`, { as: person })).body
  assert.equal(run.status, 'success')
  assert.equal(run.error, null)
  assert.equal(run.records_read, 25)
  assert.equal(run.records_written, 25)
  assert.equal(run.attempt, 1)
  assert.equal(run.output_file, `${person.organization_id}/runs/${run.id}/output.jsonl`)
  const output = await call('GET', `/api/pipelines/runs/${run.id}/output`, { as: person })
  assert.equal(output.status, 200)
  assert.equal(output.headers['content-type'], 'application/x-ndjson')
  assert.equal(Number(output.headers['content-length']), run.output_file_size)
  const ids = output.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line)._record_id)
  assert.deepEqual(
    ids,
    Array.from({ length: 25 }, (_, index) => `creatures-${index + 1}`),
  )
  assert.match(await engine.logs(run.id), /^\S+Z INFO {2}Reading all of creatures from Dummy.*\n.*Read 25 records/s)
})

test('a failing source fails the run with its kind, and leaves no output', async () => {
  const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 100, fail_after: 30 } }))
  const ended = await engine.finished(run)
  assert.equal(ended.status, 'failed')
  assert.match(ended.error!, /^source: /)
  assert.deepEqual([ended.records_read, ended.records_written], [30, 0])
  assert.equal((await call('GET', `/api/pipelines/runs/${run}/output`, { as: person })).status, 404)
  const blobs = []
  for await (const blob of engine.services.blobs.list(`${person.organization_id}/runs/${run}/`)) blobs.push(blob.key)
  assert.deepEqual(blobs, [])
  assert.match(await engine.logs(run), /ERROR The run failed\. source: /)
})

test('runs of one pipeline execute one after another, in order', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 3, delay_ms: 20 } })
  const ids = []
  for (let index = 0; index < 4; index++) ids.push(await engine.trigger(pipeline))
  const runs = []
  for (const id of ids) runs.push(await engine.finished(id))
  for (const [index, run] of runs.entries()) {
    assert.equal(run.status, 'success')
    if (index > 0)
      assert.ok(run.started_at! >= runs[index - 1]!.finished_at!, 'each starts after the one before has ended')
  }
})

test('a run uses the config at the time it was triggered', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 2, delay_ms: 50 } })
  const first = await engine.trigger(pipeline)
  const second = await engine.trigger(pipeline)
  const changed = {
    name: 't',
    source: { name: 'dummy', stream: 'plants', config: { records: 7 } },
    destination: { name: 'file' },
  }
  assert.equal((await call('PUT', `/api/pipelines/${pipeline}`, { as: person, body: { config: changed } })).status, 200)
  const third = await engine.trigger(pipeline)
  assert.equal((await engine.finished(first)).records_read, 2)
  assert.equal((await engine.finished(second)).records_read, 2)
  assert.equal((await engine.finished(third)).records_read, 7)
})

test('a deleted saved connector fails the next run with a clear message', async () => {
  const saved = await call('POST', '/api/saved/destinations', {
    as: person,
    body: { name: 'out', connector_name: 'file', config: {}, description: '' },
  })
  const pipeline = await engine.createPipeline({ destination: { saved_connector_id: saved.body.id } })
  assert.equal((await call('DELETE', `/api/saved/destinations/${saved.body.id}`, { as: person })).status, 204)
  const run = await engine.finished(await engine.trigger(pipeline))
  assert.equal(run.status, 'failed')
  assert.match(run.error!, /^config: The saved destination .* was deleted/)
})

test('a transient failure is retried, and the last one ends the run', async () => {
  const pipeline = await engine.createPipeline({
    source: { name: 'file', stream: 'rows', config: { url: 'http://127.0.0.1:9/none.jsonl' } },
    run: { max_attempts: 2, backoff_seconds: 1 },
  })
  const id = await engine.trigger(pipeline)
  const waiting = await engine.until(id, (run) => run.status === 'pending' && run.attempt === 1)
  assert.match(waiting.error!, /^source: /)
  const run = await engine.finished(id)
  assert.equal(run.status, 'failed')
  assert.equal(run.attempt, 2)
  assert.match(await engine.logs(id), /Attempt 1 of 2 failed/)
})

test('lists, single reads, logs and outputs of another organization are not found', async () => {
  const other = await registerPerson(engine, 'Stranger')
  const pipeline = await engine.createPipeline({})
  const run = await engine.trigger(pipeline)
  await engine.finished(run)
  for (const [method, url] of [
    ['GET', `/api/pipelines/${pipeline}/runs`],
    ['GET', `/api/pipelines/${pipeline}/stats`],
    ['POST', `/api/pipelines/${pipeline}/run`],
    ['GET', `/api/pipelines/runs/${run}`],
    ['GET', `/api/pipelines/runs/${run}/logs`],
    ['GET', `/api/pipelines/runs/${run}/logs/stream`],
    ['GET', `/api/pipelines/runs/${run}/output`],
    ['POST', `/api/pipelines/runs/${run}/output/ticket`],
    ['POST', `/api/pipelines/runs/${run}/cancel`],
  ] as const) {
    const answer = await call(method, url, { as: other })
    assert.equal(answer.status, 404, `${method} ${url}`)
    const unknown = await call(method, url.replace(/[0-9a-f-]{36}/, '00000000-0000-4000-8000-000000000000'), {
      as: other,
    })
    assert.deepEqual(unknown.body, answer.body)
  }
  assert.deepEqual((await call('GET', '/api/runs', { as: other })).body, [])
})

test('a list of runs is filtered by status and has its total', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 1 } })
  for (let index = 0; index < 3; index++) await engine.finished(await engine.trigger(pipeline))
  const all = await call('GET', `/api/pipelines/${pipeline}/runs?limit=2`, { as: person })
  assert.equal(all.body.length, 2)
  assert.equal(all.headers['x-total-count'], '3')
  assert.ok(all.body[0].created_at > all.body[1].created_at, 'newest first')
  assert.equal((await call('GET', `/api/pipelines/${pipeline}/runs?status=failed`, { as: person })).body.length, 0)
  assert.equal((await call('GET', `/api/pipelines/${pipeline}/runs?status=odd`, { as: person })).status, 400)
  const page = await call('GET', `/api/runs?pipeline_id=${pipeline}&limit=2`, { as: person })
  const next = await call('GET', `/api/runs?pipeline_id=${pipeline}&limit=2&before=${page.body[1].id}`, { as: person })
  assert.equal(next.body.length, 1)
  const stats = (await call('GET', `/api/pipelines/${pipeline}/stats`, { as: person })).body
  assert.equal(stats.runs, 3)
  assert.equal(stats.success_rate, 1)
  assert.equal(stats.records_per_day[0].records, 3)
})

test('a secret never reaches the log, the error or the queue', async () => {
  const token = 'sekret+token/with=signs'
  const pipeline = await engine.createPipeline({
    source: {
      name: 'dummy',
      stream: 'creatures',
      authentication: { type: 'api_key', params: { token } },
      config: { fail_after: 1 },
    },
  })
  const run = await engine.trigger(pipeline)
  await engine.finished(run)
  const rows = await engine.services.db.query(
    sql`SELECT r.*, k.lines FROM runs r LEFT JOIN run_log_chunks k ON k.run_id = r.id WHERE r.id = ${run}`,
  )
  assert.ok(!JSON.stringify(rows).includes(token))
  assert.equal(
    (await engine.services.db.first<{ config_box: null }>(sql`SELECT config_box FROM runs WHERE id = ${run}`))!
      .config_box,
    null,
  )
})

test('lists of runs are plain arrays, with counts of each status beside them where asked for', async () => {
  const other = await registerPerson(engine, 'Counted')
  const body = {
    name: 'Counted',
    config: { source: { name: 'dummy', stream: 'plants', config: { fail_after: 0 } }, destination: { name: 'file' } },
  }
  const pipeline = await call('POST', '/api/pipelines', { as: other, body })
  const run = await call('POST', `/api/pipelines/${pipeline.body.id}/run`, { as: other })
  await engine.finished(run.body.id)
  const counts = { pending: 0, running: 0, success: 0, failed: 1, cancelled: 0 }
  for (const path of [`/api/pipelines/${pipeline.body.id}/runs`, '/api/runs']) {
    const plain = await call('GET', path, { as: other })
    assert.deepEqual([plain.body.length, plain.headers['x-status-counts']], [1, undefined])
    const counted = await call('GET', `${path}?include_counts=true&status=success`, { as: other })
    assert.deepEqual(counted.body, [])
    for (const [status, total] of Object.entries({ '': '1', '&status=failed': '1', '&status=success': '0' })) {
      const { headers } = await call('GET', `${path}?include_counts=true&limit=1${status}`, { as: other })
      assert.equal(String(headers['x-total-count']), total, `${path} ${status}`)
    }
    assert.deepEqual(JSON.parse(String(counted.headers['x-status-counts'])), counts)
    const theirs = await call('GET', `${path}?include_counts=true`, { as: person })
    assert.equal(theirs.status === 404 || theirs.headers['x-status-counts'] !== JSON.stringify(counts), true)
  }
})
