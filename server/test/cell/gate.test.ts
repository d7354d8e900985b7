import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGate, GateFull } from '../../src/cell/gate.ts'

test('a flood of one organization does not hold up another', async () => {
  const gate = createGate({ total: 4, perKey: 2, maxWaiting: 100 })
  const order: string[] = []
  const release: (() => void)[] = []
  const start = (key: string, name: string) =>
    gate.run(key, () => {
      order.push(name)
      return new Promise<void>((resolve) => release.push(resolve))
    })
  const tasks = Array.from({ length: 10 }, (_, index) => start('a', `a${index}`))
  tasks.push(start('b', 'b0'), start('b', 'b1'), start('b', 'b2'))
  assert.deepEqual(order, ['a0', 'a1', 'b0', 'b1'])
  while (release.length > 0) {
    release.shift()!()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await Promise.all(tasks)
  assert.equal(order.length, 13)
  assert.ok(order.indexOf('b2') < order.indexOf('a4'))
})

test('a line that is too long is refused, and a task that fails makes room', async () => {
  const gate = createGate({ total: 1, perKey: 1, maxWaiting: 1 })
  const first = Promise.withResolvers<void>()
  const failing = gate.run('a', () => first.promise)
  const second = gate.run('a', async () => 'second')
  await assert.rejects(
    gate.run('a', async () => 'third'),
    GateFull,
  )
  first.reject(new Error('failed'))
  await assert.rejects(failing, /failed/)
  assert.equal(await second, 'second')
})
