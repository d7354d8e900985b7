import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FrameReader } from '../../src/executors/channel.ts'

const LIMITS = { head: 100, body: 1000, perSecond: { frames: 100, bytes: 10_000 } }

function frame(head: string, body = ''): Buffer {
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32LE(Buffer.byteLength(head), 0)
  lengths.writeUInt32LE(Buffer.byteLength(body), 4)
  return Buffer.concat([lengths, Buffer.from(head), Buffer.from(body)])
}

function read(bytes: Buffer, step: number): [unknown, string][] {
  const reader = new FrameReader(LIMITS)
  const found: [unknown, string][] = []
  for (let at = 0; at < bytes.length; at += step)
    reader.push(bytes.subarray(at, at + step), (message, body) => found.push([message, body.toString()]))
  return found
}

test('frames are the same however the stream is split', () => {
  const stream = Buffer.concat([frame('{"a":"é"}'), frame('1', 'body'), frame('null', 'x'.repeat(1000)), frame('[]')])
  const whole = read(stream, stream.length)
  assert.deepEqual(whole, [
    [{ a: 'é' }, ''],
    [1, 'body'],
    [null, 'x'.repeat(1000)],
    [[], ''],
  ])
  for (const step of [1, 2, 3, 7, 8, 9, 64]) assert.deepEqual(read(stream, step), whole, `cut after ${step}`)
})

test('a flood of frames is refused, few and large or many and small', () => {
  assert.throws(() => read(Buffer.concat(Array(250).fill(frame('1'))), 4096), /frames or/)
  assert.throws(() => read(Buffer.concat(Array(25).fill(frame('1', 'x'.repeat(900)))), 4096), /bytes in a second/)
})

test('a length above its limit is refused before any of it is buffered', () => {
  const head = Buffer.alloc(8)
  for (const [headBytes, bodyBytes] of [
    [0, 0],
    [101, 0],
    [0xffffffff, 0],
    [2, 1001],
    [2, 0xffffffff],
  ] as const) {
    head.writeUInt32LE(headBytes, 0)
    head.writeUInt32LE(bodyBytes, 4)
    const before = process.memoryUsage().arrayBuffers
    assert.throws(() => read(head, 8), /bytes, more than the limit/, `${headBytes}, ${bodyBytes}`)
    assert.ok(process.memoryUsage().arrayBuffers - before < 1 << 20)
  }
  assert.throws(() => read(frame('{'), 20), SyntaxError)
})
