import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const worker = await engine.work()
const { call, person } = engine

const executors = () =>
  readdirSync('/proc').filter((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      return (
        /^\d+$/.test(name) &&
        Number(stat.split(') ')[1]!.split(' ')[1]) === process.pid &&
        readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('executor.ts')
      )
    } catch {
      return false
    }
  })

const slow = { dummy: { records: 1000, delay_ms: 50 } }

test('a running run is cancelled at once, and its process is gone', async () => {
  const run = await engine.trigger(await engine.createPipeline(slow))
  await engine.until(run, ({ status, records_read }) => status === 'running' && records_read > 0)
  const before = executors()
  const answer = await call('POST', `/api/pipelines/runs/${run}/cancel`, { as: person })
  assert.deepEqual([answer.status, answer.body], [200, { status: 'cancelled' }])
  const ended = await engine.run(run)
  assert.equal(ended.status, 'cancelled')
  assert.ok(ended.finished_at)
  const deadline = Date.now() + 5000
  while (before.every((pid) => executors().includes(pid))) {
    assert.ok(Date.now() < deadline, 'the executor is still there')
    await delay(10)
  }
  assert.equal((await call('GET', `/api/pipelines/runs/${run}/output`, { as: person })).status, 404)
})

test('a pending run is cancelled, and the next one continues', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 3, delay_ms: 50 } })
  const [first, second, third] = [
    await engine.trigger(pipeline),
    await engine.trigger(pipeline),
    await engine.trigger(pipeline),
  ]
  assert.equal((await call('POST', `/api/pipelines/runs/${second}/cancel`, { as: person })).status, 200)
  assert.equal((await engine.finished(first)).status, 'success')
  assert.equal((await engine.finished(third)).status, 'success')
  assert.equal((await engine.run(second)).status, 'cancelled')
})

test('a finished run cannot be cancelled', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  await engine.finished(run)
  assert.equal((await call('POST', `/api/pipelines/runs/${run}/cancel`, { as: person })).status, 409)
  assert.equal((await engine.run(run)).status, 'success')
})

test('either a cancel or a finish wins, never both', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 1 } })
  for (let index = 0; index < 10; index++) {
    const run = await engine.trigger(pipeline)
    await delay(index * 4)
    const { status } = await call('POST', `/api/pipelines/runs/${run}/cancel`, { as: person })
    const ended = await engine.finished(run)
    assert.equal(ended.status, status === 200 ? 'cancelled' : 'success')
    assert.equal(ended.output_file === null, status === 200)
  }
})

test('deleting a pipeline stops its run and removes everything', async () => {
  const pipeline = await engine.createPipeline(slow)
  const run = await engine.trigger(pipeline)
  await engine.until(run, ({ status }) => status === 'running')
  assert.equal((await call('DELETE', `/api/pipelines/${pipeline}`, { as: person })).status, 204)
  assert.equal((await call('GET', `/api/pipelines/runs/${run}`, { as: person })).status, 404)
})

test('a worker that shuts down hands its runs over instead of failing them', async () => {
  const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 40, delay_ms: 25 } }))
  await engine.until(run, ({ status }) => status === 'running')
  await worker.stop(AbortSignal.abort())
  const waiting = await engine.run(run)
  assert.equal(waiting.status, 'pending')
  assert.equal(waiting.lost_attempts, 0)
  await engine.work()
  const ended = await engine.finished(run)
  assert.equal(ended.status, 'success')
  assert.equal(ended.attempt, 2)
  assert.equal(ended.records_written, 40)
})
