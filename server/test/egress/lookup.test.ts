import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, limitLookups } from '../../src/egress/lookup.ts'

test('slow names take some threads and no more, and what nobody waits for is not looked up', async () => {
  const begun: string[] = []
  const ends = new Map<string, PromiseWithResolvers<Answer[]>>()
  const lookup = limitLookups((host) => {
    begun.push(host)
    ends.set(host, Promise.withResolvers())
    return ends.get(host)!.promise
  }, 2)
  const gone = new AbortController()
  const [first, second] = [lookup('a'), lookup('b')]
  void lookup('c', gone.signal)
  void lookup('d', gone.signal)
  const last = lookup('e')
  assert.deepEqual(begun, ['a', 'b'])
  gone.abort()
  ends.get('a')!.resolve([{ address: '192.0.2.1', family: 4 }])
  assert.equal((await first)[0]?.address, '192.0.2.1')
  await new Promise(setImmediate)
  assert.deepEqual(begun, ['a', 'b', 'e'])
  ends.get('b')!.reject(new Error('no such name'))
  await assert.rejects(second, /no such name/)
  ends.get('e')!.resolve([])
  await last
  void lookup('f')
  void lookup('g')
  assert.deepEqual(begun.slice(3), ['f', 'g'], 'both places are free again')
})
