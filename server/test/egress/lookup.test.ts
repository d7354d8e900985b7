import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, limitLookups, lookUpAs } from '../../src/egress/lookup.ts'

/** Until everything that can progress has done so. */
const settle = () => new Promise(setImmediate)

test('slow lookups use a limited number of threads, and an aborted one is not started', async () => {
  const begun: string[] = []
  const ends = new Map<string, PromiseWithResolvers<Answer[]>>()
  const lookup = limitLookups((host) => {
    begun.push(host)
    ends.set(host, Promise.withResolvers())
    return ends.get(host)!.promise
  }, 2)
  const gone = new AbortController()
  const [first, second] = [lookup('a'), lookup('b')]
  const dropped = [lookup('c', gone.signal), lookup('d', gone.signal)].map((each) => assert.rejects(each))
  const last = lookup('e')
  await settle()
  assert.deepEqual(begun, ['a', 'b'])
  gone.abort()
  await Promise.all(dropped)
  ends.get('a')!.resolve([{ address: '192.0.2.1', family: 4 }])
  assert.equal((await first)[0]?.address, '192.0.2.1')
  await settle()
  assert.deepEqual(begun, ['a', 'b', 'e'])
  ends.get('b')!.reject(new Error('no such name'))
  await assert.rejects(second, /no such name/)
  ends.get('e')!.resolve([])
  await last
  void lookup('f')
  void lookup('g')
  await settle()
  assert.deepEqual(begun.slice(3), ['f', 'g'], 'both lanes are free again')
})

test('an organization with unresponsive DNS uses one lane, and the others take turns', async () => {
  const begun: string[] = []
  const ends = new Map<string, PromiseWithResolvers<Answer[]>>()
  const lookup = limitLookups((host) => {
    begun.push(host)
    ends.set(host, Promise.withResolvers())
    return ends.get(host)!.promise
  }, 2)
  const ask = (organization: string, host: string) => lookUpAs(organization, () => lookup(host))
  const end = async (host: string) => {
    ends.get(host)!.resolve([])
    await settle()
  }
  for (const host of ['a1', 'a2', 'a3', 'a4']) void ask('a', host)
  await settle()
  assert.deepEqual(begun, ['a1'], 'the second lane is left to others')
  for (const host of ['b1', 'b2', 'b3']) void ask('b', host)
  void ask('c', 'c1')
  await settle()
  assert.deepEqual(begun, ['a1', 'b1'])
  await end('b1')
  await end('b2')
  assert.deepEqual(begun.slice(2), ['b2', 'c1'], 'c comes before the third of b, and a waits for its own')
  await end('c1')
  assert.deepEqual(begun.slice(4), ['b3'])
  await end('a1')
  assert.deepEqual(begun.slice(5), ['a2'])
})

test('each egress has its own lanes', async () => {
  const silent = Promise.withResolvers<Answer[]>()
  const lookups = [1, 2].map(() => limitLookups(() => silent.promise, 1))
  const begun = lookups.map((lookup) => lookup('a'))
  silent.resolve([{ address: '192.0.2.1', family: 4 }])
  assert.equal((await Promise.all(begun)).length, 2)
})
