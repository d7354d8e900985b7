import assert from 'node:assert/strict'
import { test } from 'node:test'
import { launchExecutor } from '../../src/executors/process.ts'
import { removeScratch } from '../../src/executors/scratch.ts'

const entry = new URL('./late-output.ts', import.meta.url).pathname
const limits = { head: 1024, body: 0, perSecond: { frames: 1, bytes: 1 } }

test('the end of an executor includes what was still in its output when it exited', async () => {
  const executor = launchExecutor({ memoryMb: 64, semiSpaceMb: 1, limits, entry }, { message() {}, broken() {} })
  const { code, stderr } = await executor.ended
  await removeScratch(executor.scratch)
  assert.deepEqual([code, stderr], [3, 'heap out of memory\n'])
})
