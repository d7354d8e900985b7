import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
await engine.work()
const { config } = engine.services
const slow = { dummy: { records: 1000, delay_ms: 50 } }

const executorOf = (parent: number): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return (
          Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]) === parent &&
          readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('executor.ts')
        )
      } catch {
        return false
      }
    })

test('an executor that dies fails its run with the true reason, and the worker continues', async () => {
  const run = await engine.trigger(await engine.createPipeline(slow))
  await engine.until(run, ({ records_read }) => records_read > 0)
  for (const pid of executorOf(process.pid)) process.kill(pid, 'SIGKILL')
  const ended = await engine.finished(run)
  assert.equal(ended.status, 'failed')
  assert.match(ended.error!, /^internal: the executor exited in the middle of the run \(killed by SIGKILL\)/)
  assert.equal((await engine.finished(await engine.trigger(await engine.createPipeline({})))).status, 'success')
})

test('a run that takes too long fails with kind timeout', async () => {
  const before = config.RUN_TIMEOUT_MINUTES
  config.RUN_TIMEOUT_MINUTES = 0.01
  try {
    const ended = await engine.finished(await engine.trigger(await engine.createPipeline(slow)))
    assert.match(ended.error!, /^timeout: the run took longer than/)
  } finally {
    config.RUN_TIMEOUT_MINUTES = before
  }
})

test("a pipeline's own limit never exceeds the operator's, even if that was lowered later", async () => {
  const before = config.RUN_TIMEOUT_MINUTES
  const pipeline = await engine.createPipeline({ ...slow, run: { timeout_minutes: before, max_attempts: 1 } })
  config.RUN_TIMEOUT_MINUTES = 0.01
  try {
    const ended = await engine.finished(await engine.trigger(pipeline))
    assert.match(ended.error!, /^timeout: the run took longer than 0.01 minutes/)
  } finally {
    config.RUN_TIMEOUT_MINUTES = before
  }
})

test('a run that exceeds its memory fails with kind memory', async () => {
  const before = config.RUN_MEMORY_MB
  config.RUN_MEMORY_MB = 20
  try {
    const ended = await engine.finished(await engine.trigger(await engine.createPipeline(slow)))
    assert.match(ended.error!, /^memory: the run used \d+ MB/)
  } finally {
    config.RUN_MEMORY_MB = before
  }
})

test('an organization that has used up its storage gets a clear error', async () => {
  const quota = engine.services.config as { ORG_STORAGE_GB: number | undefined }
  quota.ORG_STORAGE_GB = 0.000001
  try {
    const ended = await engine.finished(
      await engine.trigger(await engine.createPipeline({ dummy: { records: 100_000 } })),
    )
    assert.match(ended.error!, /^limit: the outputs of your organization would exceed/)
    const small = await engine.finished(await engine.trigger(await engine.createPipeline({ dummy: { records: 100 } })))
    assert.match(small.error!, /^limit: /)
  } finally {
    quota.ORG_STORAGE_GB = undefined
  }
})
