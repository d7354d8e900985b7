/** The worker's pool with a compromised executor that floods its worker. */
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, test } from 'node:test'
import { createExecutorPool } from '../../src/executors/pool.ts'

const pool = createExecutorPool({
  settings: () => ({
    serves: 'runs',
    blobs: { DATA_DIR: '/nowhere' },
    egress: { allow: [], self: [] },
    cell: { python: 'python3', sandbox: 'kernel', limits: {}, modules: [] },
    checkpointMs: 1000,
  }),
  memoryMb: 256,
  warm: 0,
  most: 1,
  entry: path.join(import.meta.dirname, 'hostile-executor.ts'),
})
after(() => pool.close())

test('an executor that floods its worker is killed before it fills its memory or takes its time', async () => {
  const endless = 'flood(Buffer.alloc(1 << 20, 120))'
  for (const code of [
    `raw(Buffer.from([255, 255, 255, 255, 0, 0, 0, 0])); ${endless}`,
    endless,
    "flood(frame({ type: 'progress' }))",
    "flood(frame({ type: 'log', entries: [['info', 'x'.repeat(40 << 20)]] }))",
  ]) {
    const before = process.memoryUsage().rss
    const executor = pool.take()
    executor.send({ type: 'run', job: { code } as never })
    const { signal } = await executor.ended
    pool.give(executor, false)
    assert.equal(signal, 'SIGKILL', code)
    assert.ok(process.memoryUsage().rss - before < 300 << 20, code)
  }
})

test('an executor that could not be started is reported as ended, and the worker continues', async () => {
  const folder = process.env.TMPDIR
  try {
    process.env.TMPDIR = import.meta.filename
    const executor = pool.take()
    const { code, signal, stderr } = await executor.ended
    assert.deepEqual([code, signal], [null, null])
    assert.match(stderr, /ENOTDIR/)
    pool.give(executor, false)
  } finally {
    if (folder === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = folder
  }
})
