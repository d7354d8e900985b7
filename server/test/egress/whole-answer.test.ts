/** What only answers collected in memory have: a limit per batch, and a shared signal. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { RequestGroup } from '../../src/egress/request-group.ts'
import { retryAfterMs } from '../../src/egress/retry-after.ts'
import { openEgress, startServer } from './http-server.ts'

const server = await startServer()
const { base } = server
const egress = openEgress()

test('the answers of a batch share their limit, compressed or not, and failures return their share', async () => {
  server.serve('/plain', Buffer.alloc(1000))
  server.serve('/packed', gzipSync(Buffer.alloc(1000)), { 'content-encoding': 'gzip' })
  for (const path of ['/plain', '/packed']) {
    const room = { bytes: 2500 }
    await egress.fetch(base + path, { room })
    await egress.fetch(base + path, { room })
    assert.equal(room.bytes, 500)
    await assert.rejects(egress.fetch(base + path, { room }), { reason: 'too_large', message: /one batch/ }, path)
    if (path === '/plain') assert.equal(room.bytes, 500)
  }
})

test('a followed redirect uses none of the limit', async () => {
  server.redirect('/moved', '/plain')
  server.serve('/plain', Buffer.alloc(1000))
  const room = { bytes: 1000 }
  await egress.fetch(`${base}/moved`, { room })
  assert.equal(room.bytes, 0)
})

test('the requests of a group end with its signal, and later ones do not start', async () => {
  server.on('/hang', () => {})
  const controller = new AbortController()
  const group = new RequestGroup(controller.signal)
  server.seen.length = 0
  const waiting = [1, 2, 3].map(() => egress.fetch(`${base}/hang`, { group }))
  while (server.seen.length < 3) await new Promise(setImmediate)
  const reason = new Error('the call ended')
  controller.abort(reason)
  for (const each of waiting) await assert.rejects(each, reason)
  await assert.rejects(egress.fetch(`${base}/hang`, { group }), reason)
  assert.equal(server.seen.length, 3)
})

test('Retry-After is parsed as seconds or as a date', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  const read = (text: string | string[]) => retryAfterMs({ headers: { 'retry-after': text } }, now)
  assert.equal(read('120'), 120_000)
  assert.equal(read(['7', '9']), 7000)
  assert.equal(read('Thu, 01 Jan 2026 00:10:00 GMT'), 600_000)
  assert.equal(read('Wed, 31 Dec 2025 00:00:00 GMT'), 0)
  assert.equal(read('soon'), null)
  assert.equal(retryAfterMs({ headers: {} }, now), null)
})
