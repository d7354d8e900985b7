import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHandoff } from '../../src/cell/handoff.ts'

test('the producer is at most a fixed number of items ahead', async () => {
  const handoff = createHandoff<number>(2)
  assert.equal(handoff.put(1), undefined)
  const waiting = handoff.put(2)
  assert.ok(waiting instanceof Promise)
  assert.equal(await handoff.take(), 1)
  await waiting
  assert.equal(await handoff.take(), 2)
  const next = handoff.take()
  assert.equal(handoff.put(3), undefined)
  assert.equal(await next, 3)
})

test('items put before the end or a failure are taken first', async () => {
  const ended = createHandoff<number>(5)
  ended.put(1)
  ended.end()
  assert.deepEqual([await ended.take(), await ended.take(), await ended.take()], [1, null, null])
  const failed = createHandoff<number>(5)
  failed.put(1)
  failed.fail(new Error('broken'))
  assert.equal(await failed.take(), 1)
  await assert.rejects(failed.take(), /broken/)
  const waiting = createHandoff<number>(5)
  const taken = waiting.take()
  waiting.fail(new Error('broken'))
  await assert.rejects(taken, /broken/)
})
