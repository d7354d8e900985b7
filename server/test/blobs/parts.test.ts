/** Parts: what is written plain comes back plain, in every range; what is not what it claims to be never does. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { constants, zstdCompressSync } from 'node:zlib'
import type { BlobStore } from '../../src/blobs/blobs.ts'
import { createLocalBlobs } from '../../src/blobs/local.ts'
import { readPart, readParts } from '../../src/blobs/part-reader.ts'
import { openPartWriter } from '../../src/blobs/part-writer.ts'
import { DamagedPart, type StoredPart } from '../../src/blobs/parts.ts'
import { createS3Blobs } from '../../src/blobs/s3.ts'
import { FRAME_BYTES, isPossible, writeSeekTable } from '../../src/blobs/seek-table.ts'
import { openEngine, quoteText } from '../../src/connectors/duckdb.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'

const folder = await mkdtemp(join(tmpdir(), 'sluice-parts-'))
after(() => rm(folder, { recursive: true, force: true }))
const local = createLocalBlobs(join(folder, 'blobs'))

/** Lines that compress well, with a block in between that does not. */
function makeBytes(size: number): Buffer {
  const lines: Buffer[] = []
  for (let bytes = 0, id = 0; bytes < size; id++) {
    const noise = id % 5000 === 4999 ? randomBytes(300_000).toString('base64') : ''
    const line = Buffer.from(`{"id":${id},"name":"user ${id}","fill":"${noise}"}\n`)
    lines.push(line)
    bytes += line.length
  }
  return Buffer.concat(lines).subarray(0, size)
}

/** Written in pieces of all sizes, as pages come. */
async function store(blobs: BlobStore, key: string, bytes: Buffer, packing: 'zstd' | 'gzip' = 'zstd') {
  const writer = openPartWriter(blobs, key, packing)
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + Math.floor(Math.random() ** 4 * 2.5 * FRAME_BYTES)
    await writer.write(bytes.subarray(at, at + length))
    at += length
  }
  return writer.finish()
}

const all = (blobs: BlobStore, part: StoredPart) => buffer(readPart(blobs, part))

function randomRanges(size: number, count: number): { start: number; end: number }[] {
  const random = () => Math.floor(Math.random() * size)
  return Array.from({ length: count }, () => {
    const [one, other] = [random(), random()]
    return { start: Math.min(one, other), end: Math.max(one, other) }
  })
}

/** Those at which a mistake by one would show. */
function borderRanges(size: number): { start: number; end: number }[] {
  const borders = [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 2 * FRAME_BYTES, size - 2, size - 1].filter(
    (border) => border >= 0 && border < size,
  )
  return borders.flatMap((start) => borders.filter((end) => end >= start).map((end) => ({ start, end })))
}

function testParts(open: () => BlobStore): void {
  it('returns what was written, whole and in any range', async () => {
    const blobs = open()
    const sizes = [0, 1, 1000, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES + 12_345]
    for (const [index, size] of sizes.entries()) {
      const bytes = makeBytes(size)
      const part = await store(blobs, `o/runs/r/1-${index}.part`, bytes)
      assert.deepEqual([part.key, part.size], [`o/runs/r/1-${index}.part.zst`, size])
      assert.equal((await blobs.stat(part.key))?.size, part.stored_bytes)
      assert.ok((await all(blobs, part)).equals(bytes), `all of ${size}`)
      for (const range of [...borderRanges(size), ...randomRanges(size, 15)]) {
        const read = await buffer(readPart(blobs, part, range))
        assert.ok(read.equals(bytes.subarray(range.start, range.end + 1)), `${JSON.stringify(range)} of ${size}`)
      }
    }
  })

  it('reads what is stored plain, as older versions did, beside what is compressed', async () => {
    const blobs = open()
    const bytes = makeBytes(300_000)
    await blobs.put('o/runs/r/2-1.part', bytes)
    const plain: StoredPart = { key: 'o/runs/r/2-1.part', size: bytes.length }
    const packed = await store(blobs, 'o/runs/r/2-2.part', bytes)
    assert.ok((await buffer(readParts(blobs, [plain, packed]))).equals(Buffer.concat([bytes, bytes])))
    assert.ok((await buffer(readPart(blobs, plain, { start: 7, end: 99 }))).equals(bytes.subarray(7, 100)))
  })

  it('refuses a blob that is shorter than its row says, compressed or not', async () => {
    const blobs = open()
    const bytes = makeBytes(2 * FRAME_BYTES + 1000)
    const part = await store(blobs, 'o/runs/r/3-1.part', bytes)
    const stored = await buffer(await blobs.read(part.key))
    for (const length of [0, 10, Math.floor(stored.length / 2), stored.length - 1]) {
      await blobs.put(part.key, stored.subarray(0, length))
      await assert.rejects(all(blobs, part), DamagedPart, `${length} of ${stored.length}`)
    }
    await blobs.put('o/runs/r/3-2.part', bytes.subarray(0, -1))
    await assert.rejects(all(blobs, { key: 'o/runs/r/3-2.part', size: bytes.length }), DamagedPart)
  })
}

describe('a part in a folder', () => testParts(() => local))

describe('a part in S3', () => {
  let server: S3Server
  before(async () => {
    server = await startS3Server()
  })
  after(() => server.close())
  testParts(() => createS3Blobs({ ...server, prefix: 'parts' }))
})

describe('a compressed part', () => {
  it('is a file that other readers of zstd read', async () => {
    const text = Buffer.from(Array.from({ length: 120_000 }, (_, id) => `{"id":${id},"name":"user ${id}"}\n`).join(''))
    const part = await store(local, 'o/runs/r/4-1.part', text)
    assert.ok(part.stored_bytes! < text.length / 4)
    const stored = await buffer(await local.read(part.key))
    const file = join(folder, 'file.zst')
    await writeFile(file, stored)
    const duckdb = await openEngine(folder, new AbortController().signal)
    const rows = `read_csv(${quoteText(file)}, compression = 'zstd', columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', header = false, auto_detect = false)`
    const found = await duckdb.connection.runAndReadAll(
      `SELECT count(*)::INTEGER, sum(length(line) + 1)::INTEGER FROM ${rows}`,
    )
    duckdb.close()
    assert.deepEqual(found.getRowsJson(), [[120_000, text.length]])
    if (existsSync('/usr/bin/zstd'))
      assert.ok(execFileSync('/usr/bin/zstd', ['-dcq', file], { maxBuffer: 2 * text.length }).equals(text))
  })

  it('of bytes that cannot be compressed takes hardly more than they do', async () => {
    const noise = randomBytes(2 * FRAME_BYTES + 5)
    const part = await store(local, 'o/runs/r/4-2.part', noise)
    assert.ok(part.stored_bytes! < noise.length + 1000, String(part.stored_bytes))
    assert.ok((await all(local, part)).equals(noise))
  })

  it('is read only where the range is', async () => {
    const noise = randomBytes(8 * FRAME_BYTES)
    const part = await store(local, 'o/runs/r/4-3.part', noise)
    let read = 0
    const counting: BlobStore = {
      ...local,
      async read(key, range) {
        read += range!.end - range!.start + 1
        return local.read(key, range)
      },
    }
    const range = { start: 5 * FRAME_BYTES - 1, end: 5 * FRAME_BYTES }
    assert.ok((await buffer(readPart(counting, part, range))).equals(noise.subarray(range.start, range.end + 1)))
    assert.ok(read < 2.1 * FRAME_BYTES, `${read} bytes were read`)
  })

  it('is not read on when nobody wants the rest', async () => {
    const part = await store(local, 'o/runs/r/4-4.part', randomBytes(8 * FRAME_BYTES))
    const opened: Readable[] = []
    const watching: BlobStore = {
      ...local,
      async read(key, range) {
        opened.push(await local.read(key, range))
        return opened.at(-1)!
      },
    }
    for await (const frame of readPart(watching, part)) {
      assert.equal(frame.length, FRAME_BYTES)
      break
    }
    assert.deepEqual(
      opened.map((stream) => stream.destroyed),
      [true, true],
    )
  })
})

describe('a part whose blob is not what it claims to be', () => {
  const key = 'o/runs/r/5-1.part.zst'
  const lines = makeBytes(3 * FRAME_BYTES - 1000)
  /** With a checksum, as we write them. */
  const pack = (bytes: Buffer) => zstdCompressSync(bytes, { params: { [constants.ZSTD_c_checksumFlag]: 1 } })
  const frames = [0, 1, 2].map((frame) => pack(lines.subarray(frame * FRAME_BYTES, (frame + 1) * FRAME_BYTES)))

  /** A blob of these frames and the table that a hostile executor writes. */
  async function forge(
    stored: Buffer[],
    size: number,
    change: (table: Buffer) => void = () => {},
  ): Promise<StoredPart> {
    const table = writeSeekTable(
      stored.map((frame) => frame.length),
      size,
    )
    change(table)
    const blob = Buffer.concat([...stored, table])
    await local.put(key, blob)
    return { key, size, stored_bytes: blob.length }
  }

  it('is read if everything is right', async () => {
    assert.ok((await all(local, await forge(frames, lines.length))).equals(lines))
  })

  it('is refused where the table and the row disagree', async () => {
    const size = lines.length
    for (const [what, change] of [
      ['another magic number', (table) => table.writeUInt32LE(0x8f92eab2, table.length - 4)],
      ['another number of frames', (table) => table.writeUInt32LE(2, table.length - 9)],
      ['checksums', (table) => table.writeUInt8(0x80, table.length - 5)],
      ['another length', (table) => table.writeUInt32LE(table.length, 4)],
      ['a frame that is too large', (table) => table.writeUInt32LE(2 ** 32 - 1, 8)],
      ['a frame of nothing', (table) => table.writeUInt32LE(0, 8)],
      ['a larger plain size', (table) => table.writeUInt32LE(2 ** 31, 12)],
      ['a smaller plain size', (table) => table.writeUInt32LE(10, 12)],
    ] as [string, (table: Buffer) => void][]) {
      const part = await forge(frames, size, change)
      await assert.rejects(all(local, part), DamagedPart, what)
      await assert.rejects(buffer(readPart(local, part, { start: size - 1, end: size - 1 })), DamagedPart, what)
    }
    const part = await forge(frames, size)
    for (const lie of [
      { size: size - 1 },
      { size: size + 1 },
      { size: 10 * size },
      { size: Number.MAX_SAFE_INTEGER },
      { stored_bytes: part.stored_bytes! - 1 },
      { stored_bytes: part.stored_bytes! + 1 },
      { stored_bytes: 0 },
      { stored_bytes: Number.MAX_SAFE_INTEGER },
    ])
      await assert.rejects(all(local, { ...part, ...lie }), DamagedPart, JSON.stringify(lie))
  })

  it('is refused where a frame does not hold what the table says', async () => {
    const flipped = Buffer.from(frames[1]!)
    flipped[flipped.length >> 1]! ^= 1
    for (const [what, frame] of [
      ['a flipped bit', flipped],
      ['a wrong checksum', Buffer.concat([frames[1]!.subarray(0, -4), Buffer.alloc(4)])],
      ['no zstd', randomBytes(frames[1]!.length)],
      ['a truncated frame', frames[1]!.subarray(0, -1)],
      ['fewer bytes', pack(lines.subarray(0, FRAME_BYTES - 1))],
      ['more bytes', pack(lines.subarray(0, FRAME_BYTES + 1))],
    ] as const) {
      const part = await forge([frames[0]!, frame, frames[2]!], lines.length)
      const first = await buffer(readPart(local, part, { start: 0, end: 99 }))
      assert.ok(first.equals(lines.subarray(0, 100)), 'the frame before it is right')
      await assert.rejects(all(local, part), DamagedPart, what)
    }
  })

  it('takes no more memory than a frame, whatever a frame inflates to or asks for', async () => {
    const bomb = zstdCompressSync(Buffer.alloc(512 * FRAME_BYTES))
    const window = zstdCompressSync(Buffer.alloc(64 * FRAME_BYTES, randomBytes(9 * FRAME_BYTES)), {
      params: { [constants.ZSTD_c_windowLog]: 27, [constants.ZSTD_c_enableLongDistanceMatching]: 1 },
    }).subarray(0, FRAME_BYTES)
    const before = process.resourceUsage().maxRSS
    for (const hostile of [bomb, window]) {
      const part = await forge([hostile, frames[1]!, frames[2]!], lines.length)
      for (let times = 0; times < 10; times++) await assert.rejects(all(local, part), DamagedPart)
    }
    const grownMb = (process.resourceUsage().maxRSS - before) / 1024
    assert.ok(grownMb < 64, `${grownMb} MB more`)
  })

  it('cannot claim a table that would not fit into memory', () => {
    assert.equal(isPossible(4 * 2 ** 40, Number.MAX_SAFE_INTEGER), true)
    assert.equal(isPossible(4 * 2 ** 40 + 1, Number.MAX_SAFE_INTEGER), false)
    assert.equal(isPossible(10 * FRAME_BYTES, 96), false)
    assert.equal(isPossible(10 * FRAME_BYTES, 97), true)
  })
})

it('a part that cannot be stored leaves nothing behind', async () => {
  let aborted = 0
  const full: BlobStore = {
    ...local,
    async writer(key) {
      const writer = await local.writer(key)
      return {
        ...writer,
        write: () => Promise.reject(new Error('the disk is full')),
        abort() {
          aborted += 1
          return writer.abort()
        },
      }
    },
  }
  await assert.rejects(store(full, 'o/runs/r/6-1.part', makeBytes(1000)), /the disk is full/)
  assert.equal(aborted, 1)
  assert.equal(await local.stat('o/runs/r/6-1.part.zst'), null)
})
