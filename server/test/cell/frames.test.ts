import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  encodeAnswers,
  encodeFrame,
  FRAME_KINDS,
  type Frame,
  FrameDecoder,
  PreviewTooLarge,
  ProtocolError,
} from '../../src/cell/frames.ts'

const EVERYTHING = { pages: true, preview_bytes: 64 << 20 }
const { page, log, http, done, error, preview, secrets } = FRAME_KINDS

function pageFrame(records: number, lines: string, state = ''): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32LE(records, 0)
  head.writeUInt32LE(Buffer.byteLength(state), 4)
  return encodeFrame(page, head, Buffer.from(state), Buffer.from(lines))
}

function decode(bytes: Uint8Array, chunkBytes = bytes.length || 1): Frame[] {
  const decoder = new FrameDecoder(EVERYTHING)
  const frames: Frame[] = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    decoder.push(bytes.subarray(at, at + chunkBytes), (frame) => frames.push(frame))
  }
  return frames
}

const report = '{"kind":"source","type":"ValueError","text":"x","traceback":"","transient":false}'

interface RequestParts {
  auth?: number
  timeout?: number
  headers?: string
  bodyBytes?: number
  body?: string
}

/** One request as python/cell/protocol.py packs it. */
function packRequest({ auth = 1, timeout = 1, headers = 'a\nb', body = 'abc', bodyBytes }: RequestParts = {}): Buffer {
  const parts = ['GET', 'http://a/', headers].map((text) => Buffer.from(text))
  const head = Buffer.alloc(24)
  head[0] = auth
  head[1] = 3
  head.writeDoubleLE(timeout, 2)
  head.writeUInt16LE(parts[0]!.length, 10)
  head.writeUInt32LE(parts[1]!.length, 12)
  head.writeUInt32LE(parts[2]!.length, 16)
  head.writeInt32LE(bodyBytes ?? Buffer.byteLength(body), 20)
  return Buffer.concat([head, ...parts, Buffer.from(body)])
}

const httpFrame = (...requests: Buffer[]) => encodeFrame(http, ...requests)
const valid: Buffer[] = [
  pageFrame(2, '{"a":1}\n{"b":[true,null,"é\\u00e9"]}\n', '{"cursor":7}'),
  pageFrame(0, '', '{}'),
  encodeFrame(log, Buffer.from([1]), Buffer.from('hello')),
  httpFrame(packRequest(), packRequest({ bodyBytes: -1, body: '' })),
  encodeFrame(secrets),
  encodeFrame(preview, Buffer.from('[{"id":"1","data":{}}]')),
  encodeFrame(done, Buffer.from('{"records":2}')),
]

test('an unrequested page or preview is refused by its length, before any of it is buffered', () => {
  const head = (kind: number, length: number) => {
    const bytes = Buffer.alloc(5)
    bytes.writeUInt32LE(length, 0)
    bytes[4] = kind
    return bytes
  }
  const push = (bytes: Buffer, accepted: Partial<typeof EVERYTHING>) => () => {
    const before = process.memoryUsage().arrayBuffers
    const decoder = new FrameDecoder({ pages: false, preview_bytes: 0, ...accepted })
    try {
      decoder.push(bytes, () => {})
    } finally {
      assert.ok(process.memoryUsage().arrayBuffers - before < 1 << 20)
    }
  }
  assert.throws(push(head(page, 20 << 20), {}), ProtocolError)
  assert.throws(push(head(preview, 20 << 20), {}), ProtocolError)
  assert.throws(push(head(preview, 2 << 20), { preview_bytes: 1 << 20 }), PreviewTooLarge)
  const one = encodeFrame(preview, Buffer.from('[{"id":"1","data":{}}]'))
  push(one, { preview_bytes: 30 })()
  assert.throws(push(Buffer.concat([one, one]), { preview_bytes: 30 }), PreviewTooLarge, 'they count together')
})

test('a preview is passed on unchanged, with every digit', () => {
  const text = '{"id":"1","data":{"n":12345678901234567890.123456789}},{"id":"2","data":{}}'
  const [frame] = decode(encodeFrame(preview, Buffer.from(`[${text}]`)))
  assert.ok(frame?.kind === 'preview')
  assert.deepEqual([frame.records, frame.bytes.toString()], [2, text])
  for (const wrong of ['{}', ' [] ', '[{"id":"1"}]', '[{"id":1,"data":{}}]', '[{"id":"1","data":{},"more":1}]', '[1]'])
    assert.throws(() => decode(encodeFrame(preview, Buffer.from(wrong))), ProtocolError, wrong)
})

test('frames are the same however the stream is split', () => {
  const stream = Buffer.concat(valid)
  const whole = decode(stream)
  assert.equal(whole.length, valid.length)
  for (const size of [1, 2, 3, 5, 7, 64]) assert.deepEqual(decode(stream, size), whole)
  const [first, , , fourth] = whole
  assert.ok(first?.kind === 'page' && first.records === 2)
  assert.deepEqual(first.state, { cursor: 7 })
  assert.ok(fourth?.kind === 'http')
  assert.deepEqual(fourth.requests, [
    {
      method: 'GET',
      url: 'http://a/',
      headers: [['a', 'b']],
      timeout: 1,
      retries: 3,
      auth: true,
      body: Buffer.from('abc'),
    },
    { method: 'GET', url: 'http://a/', headers: [['a', 'b']], timeout: 1, retries: 3, auth: true, body: null },
  ])
})

test('what is not exactly a frame is refused', () => {
  const cases: [string, Buffer][] = [
    ['a length that would take all memory', Buffer.from([0xff, 0xff, 0xff, 0xff, page])],
    ['an unknown kind', Buffer.from([0, 0, 0, 0, 99])],
    ['a page of more records than it claims', pageFrame(1, '{"a":1}\n{"a":2}\n')],
    ['a page of fewer records than it claims', pageFrame(3, '{"a":1}\n')],
    ['a last line without a newline', pageFrame(1, '{"a":1}')],
    ['a record that is no object', pageFrame(1, '[1]\n')],
    ['two records on one line', pageFrame(1, '{"a":1}{"b":2}\n')],
    ['an empty line', pageFrame(1, '\n')],
    ['NaN', pageFrame(1, '{"a":NaN}\n')],
    ['a raw control character', pageFrame(1, '{"a":"\u0001"}\n')],
    ['a state that is longer than its page', Buffer.from([8, 0, 0, 0, page, 0, 0, 0, 0, 9, 0, 0, 0])],
    ['a state that is no JSON', pageFrame(0, '', '{oops')],
    [
      'bytes that are no UTF-8',
      encodeFrame(page, Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]), Buffer.from('{"a":"\xff"}\n', 'latin1')),
    ],
    ['a log line of an unknown level', encodeFrame(log, Buffer.from([9]), Buffer.from('x'))],
    ['a frame after the last one', Buffer.concat([encodeFrame(done, Buffer.from('{}')), pageFrame(0, '')])],
    ['a frame after an error', Buffer.concat([encodeFrame(error, Buffer.from(report)), encodeFrame(secrets)])],
    ['an error without a type', encodeFrame(error, Buffer.from('{"kind":"source"}'))],
    ['a body that is longer than its frame', httpFrame(packRequest({ bodyBytes: 4 }))],
    ['bytes behind the last body', httpFrame(packRequest({ bodyBytes: 2 }))],
    ['a body of less than nothing', httpFrame(packRequest({ bodyBytes: -2 }))],
    ['a time that is no number', httpFrame(packRequest({ timeout: Number.NaN }))],
    ['a time that is over', httpFrame(packRequest({ timeout: -1 }))],
    ['authentication that is neither on nor off', httpFrame(packRequest({ auth: 2 }))],
    ['a header without a value', httpFrame(packRequest({ headers: 'a\nb\nc' }))],
    ['too many headers', httpFrame(packRequest({ headers: new Array(402).fill('x').join('\n') }))],
    ['too many requests', httpFrame(...new Array<Buffer>(1001).fill(packRequest()))],
    ['a batch of nothing', httpFrame()],
    ['a preview record without data', encodeFrame(preview, Buffer.from('[{"id":"1"}]'))],
    ['a record nested without end', pageFrame(1, `${'{"a":'.repeat(600_000)}1${'}'.repeat(600_000)}\n`)],
  ]
  for (const [name, bytes] of cases) assert.throws(() => decode(bytes), ProtocolError, name)
})

test('answers are laid out as the cell reads them', () => {
  const frame = encodeAnswers([
    { status: 200, url: 'http://é/', headers: 'a\nb', body: Buffer.from('ok') },
    { error: { kind: 'timeout', message: 'late' } },
  ])
  assert.equal(frame.readUInt32LE(0), frame.length - 5)
  assert.equal(frame[4], 2)
  const first = frame.subarray(5)
  assert.deepEqual(
    [first.readUInt16LE(0), first.readUInt32LE(2), first.readUInt32LE(6), first.readUInt32LE(10)],
    [200, 10, 3, 2],
  )
  assert.equal(first.subarray(14, 29).toString(), 'http://é/a\nbok')
  const second = first.subarray(29)
  assert.deepEqual(
    [second.readUInt16LE(0), second.readUInt32LE(2), second.readUInt32LE(6), second.readUInt32LE(10)],
    [0, 7, 4, 0],
  )
  assert.equal(second.subarray(14).toString(), 'timeoutlate')
})

/** A small seeded generator, so that a failure can be reproduced. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function damage(stream: Buffer, random: (below: number) => number): Buffer {
  const bytes = Buffer.from(stream)
  switch (random(5)) {
    case 0:
      for (let flips = 1 + random(8); flips > 0; flips--) bytes[random(bytes.length)]! ^= 1 << random(8)
      return bytes
    case 1:
      return bytes.subarray(random(bytes.length))
    case 2:
      return Buffer.concat([bytes.subarray(0, random(bytes.length)), bytes.subarray(random(bytes.length))])
    case 3:
      return Buffer.from(Array.from({ length: 1 + random(200) }, () => random(256)))
    default:
      bytes.writeUInt32LE(random(2 ** 32), random(Math.max(bytes.length - 4, 1)))
      return bytes
  }
}

test('ten thousand hostile streams end in valid frames or in a protocol error', () => {
  let refused = 0
  let taken = 0
  for (let seed = 1; seed <= 10_000; seed++) {
    const random = randomFrom(seed)
    const frames = Array.from({ length: 1 + random(4) }, () => valid[random(valid.length)]!)
    const stream = damage(Buffer.concat(frames), random)
    const decoder = new FrameDecoder(EVERYTHING)
    try {
      for (let at = 0; at < stream.length; ) {
        const end = at + 1 + random(40)
        decoder.push(stream.subarray(at, end), (frame) => {
          taken++
          if (frame.kind === 'page') assert.equal(countLines(frame.bytes), frame.records)
        })
        at = end
      }
    } catch (failure) {
      assert.ok(failure instanceof ProtocolError, `seed ${seed}: ${failure}`)
      refused++
    }
  }
  assert.ok(refused > 5000 && taken > 1000, `${refused} streams refused, ${taken} frames taken`)
})

function countLines(bytes: Buffer): number {
  const lines = bytes.toString().split('\n')
  assert.equal(lines.pop(), '')
  for (const line of lines) assert.equal(typeof JSON.parse(line), 'object')
  return lines.length
}
