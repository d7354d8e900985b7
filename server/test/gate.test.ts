import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGate, type GateOptions } from '../src/gate.ts'

const gateOf = (options: Partial<GateOptions>) =>
  createGate({
    total: 4,
    perKey: 2,
    waitingPerKey: 100,
    waitingTotal: 1000,
    refuse: (reason, inside) => new Error(`${reason} ${inside}`),
    ...options,
  })
const settle = () => new Promise((resolve) => setImmediate(resolve))

test('a flood of one key does not delay another', async () => {
  const gate = gateOf({})
  const order: string[] = []
  const leaving: (() => void)[] = []
  const start = async (key: string, name: string) => {
    leaving.push(await gate.enter(key))
    order.push(name)
  }
  const entering = Array.from({ length: 10 }, (_, index) => start('a', `a${index}`))
  entering.push(start('b', 'b0'), start('b', 'b1'), start('b', 'b2'))
  await settle()
  assert.deepEqual(order, ['a0', 'a1', 'b0', 'b1'])
  while (leaving.length > 0) {
    leaving.shift()!()
    await settle()
  }
  await Promise.all(entering)
  assert.equal(order.length, 13)
  assert.ok(order.indexOf('b2') < order.indexOf('a4'))
})

test('a queue that is too long is refused, per key and overall', async () => {
  const gate = gateOf({ total: 1, perKey: 1, waitingPerKey: 1, waitingTotal: 2 })
  const leave = await gate.enter('a')
  const second = gate.enter('a')
  await assert.rejects(gate.enter('a'), { message: 'key 2' })
  const other = gate.enter('b')
  await assert.rejects(gate.enter('c'), { message: 'total 0' })
  leave()
  ;(await second)()
  ;(await other)()
  ;(await gate.enter('c'))()
})

test('leaving twice frees one slot', async () => {
  const gate = gateOf({ total: 1, perKey: 1, waitMs: 50 })
  const leave = await gate.enter('a')
  leave()
  leave()
  const again = await gate.enter('a')
  await assert.rejects(gate.enter('b'), /time/)
  again()
})

test('a caller that waits too long or disconnects leaves the queue, and the next one is served', async () => {
  const gate = gateOf({ total: 1, perKey: 1, waitMs: 30 })
  const leave = await gate.enter('a')
  await assert.rejects(gate.enter('b'), /time/)
  const gone = new AbortController()
  const waiting = gate.enter('b', gone.signal)
  gone.abort(new Error('gone'))
  await assert.rejects(waiting, /gone/)
  await assert.rejects(gate.enter('b', gone.signal), /gone/)
  const next = gate.enter('b')
  leave()
  ;(await next)()
})
