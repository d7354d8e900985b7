import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import type { RunSettings } from '../../src/executors/messages.ts'
import { createExecutorPool } from '../../src/executors/pool.ts'

const settings = (): RunSettings => ({
  serves: 'runs',
  blobs: { DATA_DIR: path.join(tmpdir(), `sluice-scratch-test-${process.pid}`) },
  egress: { allow: [], self: [] },
  cell: { python: 'python3', sandbox: 'kernel', limits: {}, modules: [] },
  checkpointMs: 1000,
})

test('the temporary files of an executor are removed with it, and those of a dead worker by the next one', async (t) => {
  t.after(() => rmSync(settings().blobs.DATA_DIR, { recursive: true, force: true }))
  const gone = spawnSync('true').pid
  const [left, living] = [gone, process.pid].map((pid) => path.join(tmpdir(), `sluice-executor-${pid}-left`))
  for (const folder of [left!, living!]) mkdirSync(folder)
  t.after(() => rmSync(living!, { recursive: true }))
  writeFileSync(path.join(left!, 'file'), 'rows of a tenant')

  const pool = createExecutorPool({ settings, memoryMb: 128, warm: 0, most: 1 })
  const executor = pool.take()
  await new Promise<void>((resolve) => executor.onMessage(({ type }) => void (type === 'ready' && resolve())))
  const environment = readFileSync(`/proc/${executor.pid}/environ`, 'utf8').split('\0')
  const folder = environment.find((line) => line.startsWith('TMPDIR='))!.slice('TMPDIR='.length)
  assert.equal(statSync(folder).mode & 0o777, 0o700)
  writeFileSync(path.join(folder, 'file'), 'rows of a tenant')
  executor.kill()
  await pool.close()
  assert.equal(existsSync(folder), false)
  assert.equal(existsSync(left!), false)
  assert.equal(existsSync(living!), true)
})
