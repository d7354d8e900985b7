/** Outputs are stored compressed. Nobody who downloads one can tell. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { after, describe, it } from 'node:test'
import { openPartWriter } from '../../src/blobs/part-writer.ts'
import type { StoredPart } from '../../src/blobs/parts.ts'
import { FRAME_BYTES } from '../../src/blobs/seek-table.ts'
import { sql } from '../../src/database/database.ts'
import { type Engine, startEngine } from '../harness/engine.ts'
import { startS3Server } from '../harness/s3-server.ts'

const s3 = await startS3Server()
after(() => s3.close())
const inFolder = await startEngine()
const inS3 = await startEngine({
  BLOB_URL: `s3://${s3.bucket}/test`,
  S3_ENDPOINT: s3.endpoint,
  S3_REGION: s3.region,
  S3_ACCESS_KEY_ID: s3.accessKeyId,
  S3_SECRET_ACCESS_KEY: s3.secretAccessKey,
})

const urlOf = (run: string) => `/api/pipelines/runs/${run}/output`

interface Download {
  status: number
  headers: Record<string, unknown>
  bytes: Buffer
}

async function download(engine: Engine, run: string, headers = {}, method: 'GET' | 'HEAD' = 'GET'): Promise<Download> {
  const authorization = `Bearer ${engine.person.access_token}`
  const answer = await engine.app.inject({ method, url: urlOf(run), headers: { authorization, ...headers } })
  return { status: answer.statusCode, headers: answer.headers, bytes: answer.rawPayload }
}

const partsOf = async (engine: Engine, run: string): Promise<StoredPart[]> =>
  (await engine.services.db.first<{ output_parts: StoredPart[] }>(
    sql`SELECT output_parts FROM runs WHERE id = ${run}`,
  ))!.output_parts

function makeLines(bytes: number, seed: number): Buffer {
  const lines: string[] = []
  for (let id = 0, length = 0; length < bytes; id++) {
    const line = `{"id":${id},"value":"${Math.imul(id + seed, 2654435761) >>> 0}","name":"user ${id}"}\n`
    lines.push(line)
    length += line.length
  }
  return Buffer.from(lines.join(''))
}

const workers = new WeakMap<Engine, Promise<unknown>>()

/** A successful run whose output consists of these parts, stored `plain` as older versions did or compressed. */
async function storeOutput(engine: Engine, pieces: { bytes: Buffer; plain?: boolean }[]): Promise<string> {
  if (!workers.has(engine)) workers.set(engine, engine.work())
  await workers.get(engine)
  const run = await engine.trigger(await engine.createPipeline({}))
  assert.equal((await engine.finished(run)).status, 'success')
  const { blobs, db } = engine.services
  const parts: StoredPart[] = []
  for (const [index, { bytes, plain }] of pieces.entries()) {
    const key = `${engine.person.organization_id}/runs/${run}/9-${index}.part`
    if (plain) {
      await blobs.put(key, bytes)
      parts.push({ key, size: bytes.length })
      continue
    }
    const writer = openPartWriter(blobs, key, 'zstd')
    await writer.write(bytes)
    parts.push(await writer.finish())
  }
  const size = pieces.reduce((sum, { bytes }) => sum + bytes.length, 0)
  await db.execute(
    sql`UPDATE runs SET output_parts = ${JSON.stringify(parts)}, output_file_size = ${size} WHERE id = ${run}`,
  )
  return run
}

/** Ranges as a client may write them, with what they mean: at every border, and many at random. */
function makeRanges(size: number, borders: number[]): [header: string, start: number, end: number][] {
  const random = () => Math.floor(Math.random() * size)
  const pairs = borders.flatMap((border) => [
    [border - 1, border],
    [border, border],
    [Math.max(0, border - 2000), Math.min(size - 1, border + 2000)],
  ])
  for (let count = 0; count < 20; count++) pairs.push([random(), random()].sort((a, b) => a - b))
  return [
    ...pairs.map(([start, end]): [string, number, number] => [`bytes=${start}-${end}`, start!, end!]),
    [`bytes=${size - 10}-`, size - 10, size - 1],
    ['bytes=-5', size - 5, size - 1],
    [`bytes=-${size + 5}`, 0, size - 1],
    [`bytes=0-${size + 50}`, 0, size - 1],
  ]
}

for (const [store, engine] of [
  ['a folder', inFolder],
  ['S3', inS3],
] as const)
  describe(`an output in ${store}`, () => {
    it('has the bytes, size and ranges of the plain file, across frames, parts and what older versions stored', async () => {
      const pieces = [
        { bytes: makeLines(2.5 * FRAME_BYTES, 1) },
        { bytes: makeLines(100_000, 2), plain: true },
        { bytes: makeLines(1000, 3) },
        { bytes: makeLines(FRAME_BYTES + 5, 4) },
      ]
      const run = await storeOutput(engine, pieces)
      const plain = Buffer.concat(pieces.map(({ bytes }) => bytes))
      const size = plain.length
      const whole = await download(engine, run)
      assert.equal(whole.status, 200)
      assert.equal(Number(whole.headers['content-length']), size)
      assert.ok(whole.bytes.equals(plain))
      const starts = pieces.map((_, index) => Buffer.concat(pieces.slice(0, index).map(({ bytes }) => bytes)).length)
      const borders = [FRAME_BYTES, 2 * FRAME_BYTES, ...starts.slice(1), starts.at(-1)! + FRAME_BYTES]
      for (const [range, start, end] of makeRanges(size, borders)) {
        const part = await download(engine, run, { range })
        assert.equal(part.status, 206, range)
        assert.equal(part.headers['content-range'], `bytes ${start}-${end}/${size}`)
        assert.equal(Number(part.headers['content-length']), end - start + 1)
        assert.ok(part.bytes.equals(plain.subarray(start, end + 1)), range)
      }
      assert.equal((await download(engine, run, { range: `bytes=${size}-` })).status, 416)
    })

    it('is read by the file source', async () => {
      const bytes = makeLines(1.5 * FRAME_BYTES, 5)
      const earlier = await storeOutput(engine, [{ bytes }, { bytes, plain: true }])
      const source = { name: 'file', stream: 'rows', config: { run_id: earlier } }
      const run = await engine.trigger(await engine.createPipeline({ source }))
      const ended = await engine.finished(run)
      assert.deepEqual([ended.status, ended.error], ['success', null])
      assert.ok((await download(engine, run)).bytes.equals(Buffer.concat([bytes, bytes])))
      const [part] = await partsOf(engine, run)
      assert.match(part!.key, /\.part\.zst$/)
      assert.ok(part!.stored_bytes! < part!.size / 2)
    })
  })

describe('an output', () => {
  const engine = inFolder

  it('answers HEAD without reading anything, and If-Range as for the plain file', async () => {
    const bytes = makeLines(1.2 * FRAME_BYTES, 6)
    const run = await storeOutput(engine, [{ bytes }])
    const { blobs } = engine.services
    engine.services.blobs = { ...blobs, read: () => Promise.reject(new Error('it was read')) }
    const head = await download(engine, run, {}, 'HEAD').finally(() => {
      engine.services.blobs = blobs
    })
    assert.deepEqual([head.status, Number(head.headers['content-length'])], [200, bytes.length])
    assert.equal(head.headers['accept-ranges'], 'bytes')
    const { etag } = head.headers
    const range = 'bytes=10-19'
    const same = await download(engine, run, { range, 'if-range': etag })
    assert.deepEqual([same.status, same.bytes], [206, bytes.subarray(10, 20)])
    const other = await download(engine, run, { range, 'if-range': '"other"' })
    assert.deepEqual([other.status, other.bytes.length], [200, bytes.length])
    assert.equal((await download(engine, run, { 'if-none-match': etag })).status, 304)
  })

  it('is stored as it is if its format is compressed already, and compressed otherwise', async () => {
    for (const [config, compressed] of [
      [{ format: 'parquet' }, false],
      [{ format: 'jsonl', compression: 'gzip' }, false],
      [{ format: 'csv', compression: 'gzip' }, false],
      [{ format: 'csv' }, true],
      [{ format: 'jsonl' }, true],
    ] as const) {
      const destination = { name: 'file', config }
      const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 2000 }, destination }))
      assert.equal((await engine.finished(run)).status, 'success')
      const { bytes } = await download(engine, run)
      const [part, ...more] = await partsOf(engine, run)
      assert.deepEqual(more, [])
      assert.equal(part!.size, bytes.length, JSON.stringify(config))
      const stored = await buffer(await engine.services.blobs.read(part!.key))
      if (compressed) assert.deepEqual([part!.stored_bytes, stored.length < bytes.length / 2], [stored.length, true])
      else assert.deepEqual([part!.stored_bytes, part!.key.endsWith('.part'), stored], [undefined, true, bytes])
    }
  })

  it('counts as what it takes in the store, and its log says what that is', async () => {
    const stored = async () =>
      (await engine.services.db.first<{ stored_bytes: number }>(
        sql`SELECT stored_bytes FROM organization_storage WHERE organization_id = ${engine.person.organization_id}`,
      ))!.stored_bytes
    const before = await stored()
    const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 3000 } }))
    await engine.finished(run)
    const parts = await partsOf(engine, run)
    assert.equal((await stored()) - before, parts[0]!.stored_bytes)
    assert.match(await engine.logs(run), /The output is a jsonl file of [\d.]+ .?B, stored in [\d.]+ .?B\./)
  })
})

describe('a damaged output', () => {
  const engine = inFolder
  const bytes = makeLines(4 * FRAME_BYTES, 7)

  async function damage(run: string, change: (stored: Buffer) => Buffer): Promise<void> {
    const [part] = await partsOf(engine, run)
    const stored = await buffer(await engine.services.blobs.read(part!.key))
    await engine.services.blobs.put(part!.key, change(stored))
  }

  it('is refused with a sentence if its beginning or its table is damaged', async () => {
    for (const change of [
      (stored: Buffer) => stored.subarray(0, -1),
      (stored: Buffer) => stored.fill(0, 100, 200),
      (stored: Buffer) => stored.fill(255, stored.length - 30),
    ]) {
      const run = await storeOutput(engine, [{ bytes }])
      await damage(run, change)
      const answer = await download(engine, run)
      assert.equal(answer.status, 500)
      assert.deepEqual(JSON.parse(answer.bytes.toString()), {
        detail: 'The stored output is damaged and cannot be served; run the pipeline again',
      })
    }
  })

  it('is cut off where the damage begins: a client never takes it for whole', async () => {
    const run = await storeOutput(engine, [{ bytes }])
    await damage(run, (stored) => stored.fill(0, stored.length >> 1, (stored.length >> 1) + 1000))
    const answer = await openDownload(run)
    const got: Buffer[] = []
    answer.on('data', (chunk: Buffer) => got.push(chunk))
    const [error] = await once(answer, 'error')
    assert.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET')
    const received = Buffer.concat(got)
    assert.ok(received.length < bytes.length)
    assert.ok(received.equals(bytes.subarray(0, received.length)), 'what came is right')
  })

  it('of an older version that is too short is cut off, too', async () => {
    const run = await storeOutput(engine, [{ bytes, plain: true }])
    await damage(run, (stored) => stored.subarray(0, -1))
    const answer = await openDownload(run)
    answer.resume()
    assert.equal((await once(answer, 'error'))[0].code, 'ECONNRESET')
  })
})

describe('a client that disconnects', () => {
  it('stops the reading', async () => {
    const engine = inFolder
    const noise = Buffer.from(Array.from({ length: 6_000_000 }, () => 33 + Math.floor(Math.random() * 90)))
    const run = await storeOutput(engine, Array(5).fill({ bytes: noise }))
    const { blobs } = engine.services
    const opened: Readable[] = []
    engine.services.blobs = {
      ...blobs,
      async read(key, range) {
        opened.push(await blobs.read(key, range))
        return opened.at(-1)!
      },
    }
    try {
      const answer = await openDownload(run)
      await once(answer, 'readable')
      const closed = Promise.all(
        opened.map((stream) => stream.closed || new Promise((end) => stream.once('close', end))),
      )
      answer.destroy()
      await closed
      assert.ok(opened.length < 2 * 5, 'parts that it did not reach were not opened')
      assert.ok(opened.every((stream) => stream.destroyed))
    } finally {
      engine.services.blobs = blobs
    }
  })
})

let address: Promise<AddressInfo> | null = null

/** Over a real connection, so that it can break. */
async function openDownload(run: string): Promise<IncomingMessage> {
  address ??= inFolder.app
    .listen({ host: '127.0.0.1', port: 0 })
    .then(() => inFolder.app.server.address() as AddressInfo)
  const { port } = await address
  const headers = { authorization: `Bearer ${inFolder.person.access_token}` }
  const request = get({ host: '127.0.0.1', port, path: urlOf(run), headers, agent: false })
  const [answer] = (await once(request, 'response')) as [IncomingMessage]
  assert.equal(answer.statusCode, 200)
  return answer
}
