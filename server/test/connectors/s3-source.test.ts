import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { openEngine } from '../../src/connectors/duckdb.ts'
import { SeenObjects } from '../../src/connectors/s3/source/seen-objects.ts'
import { s3Source } from '../../src/connectors/s3/source/source.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import { plainRows } from '../harness/conformance.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'
import { sourceContext } from '../harness/source-context.ts'

let bench: RunBench
let server: S3Server
before(async () => {
  bench = await openRunBench()
  bench.use(s3Source as never)
  server = await startS3Server()
})
after(async () => {
  await server.close()
  await bench.close()
})
beforeEach(() => {
  server.objects.clear()
  server.seen.length = 0
  server.intercept = null
  server.pageSize = 1000
})

const lines = (rows: readonly string[]): string => rows.map((row) => `${row}\n`).join('')
const put = (key: string, body: string | Buffer, modified = new Date()): void =>
  void server.objects.set(key, { body: Buffer.from(body), modified })

function configOf(more: Record<string, unknown> = {}): Record<string, unknown> {
  const { bucket, endpoint, region, accessKeyId, secretAccessKey } = server
  return { bucket, endpoint, region, access_key_id: accessKeyId, secret_access_key: secretAccessKey, ...more }
}

function jobOf(stream: string, more: Record<string, unknown> = {}, incremental = false): Job {
  const sync = incremental ? ({ mode: 'incremental', write: 'append' } as const) : {}
  return bench.job({ source: { name: 's3', stream, config: configOf(more) }, destination: { name: 'file' }, sync })
}

async function rowsOf(outcome: Outcome): Promise<string[]> {
  return (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1)
}

const read = async (stream: string, more?: Record<string, unknown>) => rowsOf(await bench.run(jobOf(stream, more)))

/** A Parquet file of these many rows, in row groups of 2,048. */
async function makeParquet(rows: number): Promise<Buffer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-parquet-'))
  const engine = await openEngine(folder, AbortSignal.timeout(20_000))
  try {
    await engine.connection.run(
      `COPY (SELECT i AS id, 'row ' || i AS name, (i / 4)::DECIMAL(12,2) AS score FROM range(1, ${rows + 1}) AS t(i))
       TO '${folder}/file' (FORMAT parquet, ROW_GROUP_SIZE 2048)`,
    )
    return await readFile(path.join(folder, 'file'))
  } finally {
    engine.close()
    await rm(folder, { recursive: true })
  }
}

describe('objects of a stream', () => {
  it('are read whatever their format and compression, in the order of their keys', async () => {
    put('in/a.csv', 'id,name\n1,one\n')
    put('in/b.csv.gz', gzipSync('id;name\n2;two\n'))
    put('in/c.jsonl.zst', zstdCompressSync('{"id":3,"name":"three"}\n'))
    put('in/d', '{"id":4,"name":"four"}')
    put('in/e.jsonl', '')
    put('in/sub/f.ndjson', '\ufeff{"id":5,"name":"five"}\n')
    assert.deepEqual(
      (await read('in')).map((row) => JSON.parse(row).id),
      [1, 2, 3, 4, 5],
    )
  })

  it('are those below the folder that match the glob, without what is hidden', async () => {
    for (const key of [
      't/a.csv',
      't/2026/b.csv',
      't/2026/c.txt',
      't/_manifest.json',
      't/_tmp/d.csv',
      't/.hidden',
      'tx/e.csv',
    ])
      put(key, `key\n${key}\n`)
    put('t/folder/', '')
    const keys = async (more: Record<string, unknown>, stream = 't') =>
      (await read(stream, more)).map((row) => JSON.parse(row).key)
    assert.deepEqual(await keys({}), ['t/2026/b.csv', 't/2026/c.txt', 't/a.csv'])
    assert.deepEqual(await keys({ glob: '*.csv' }), ['t/a.csv'])
    assert.deepEqual(await keys({ glob: '**/*.csv' }), ['t/2026/b.csv', 't/a.csv'])
    assert.deepEqual(await keys({ glob: '202?/*.{txt,csv}' }), ['t/2026/b.csv', 't/2026/c.txt'])
    assert.deepEqual(await keys({ glob: '**/b.csv' }, '*'), ['t/2026/b.csv'])
    assert.deepEqual(await keys({ prefix: 't/' }, '2026'), ['t/2026/b.csv', 't/2026/c.txt'])
    const context = sourceContext(bench, s3Source as never, { config: configOf() })
    assert.deepEqual(await s3Source.listStreams(context as never), ['*', 't', 'tx'])
  })

  it('may have any key that a URL can express', async () => {
    const names = [
      "a b+c&d=é'(x)*!~",
      '%2F%41',
      '日本/中文?#',
      'tab\tnew\nline',
      '<&">',
      'a//b',
      'ends with space ',
      '\u0001',
    ]
    for (const [at, name] of names.entries()) put(`odd/${name}`, `{"at":${at}}\n`)
    server.pageSize = 3
    const rows = (await read('odd')).map((row) => JSON.parse(row).at as number)
    assert.deepEqual(rows.sort(), [...names.keys()])
    put('odd/a/../x', '{}\n')
    assert.equal(
      (await read('odd')).length,
      names.length,
      'what a URL cannot express is hidden, for it begins with a dot',
    )
    await assert.rejects(read('odd/..'), /stream has a segment \. or \.\., which no key can have/)
  })

  it('are Parquet files that are read by ranges, and resumed without the row groups before', async () => {
    const bytes = await makeParquet(20_000)
    put('pq/rows.parquet', bytes)
    const ranges: string[] = []
    server.intercept = (request) => {
      if (request.headers.range) ranges.push(request.headers.range)
      return false
    }
    const job = jobOf('pq')
    assert.ok(await bench.crash(job, 'commit:after', 2, { checkpointRecords: 8000 }))
    const whole = ranges.splice(0)
    assert.ok(whole.length >= 3)
    const rows = await rowsOf(await bench.run(bench.again(job)))
    assert.equal(rows.length, 20_000)
    assert.equal(new Set(rows).size, 20_000)
    assert.deepEqual(JSON.parse(rows[6]!), { id: 7, name: 'row 7', score: 1.75 })
    put('pq/broken.parquet', Buffer.concat([Buffer.from('PAR1'), Buffer.alloc(100, 7), Buffer.from('PAR1')]))
    await assert.rejects(read('pq'), /Object 'pq\/broken.parquet': .*not a valid Parquet file/)
  })

  it('are described by the footer of the first, or by its beginning', async () => {
    put('pq/rows.parquet', await makeParquet(5000))
    put('js/rows.jsonl', lines(plainRows(5)))
    put('cs/rows.csv', 'id,day\n1,2026-01-01\n')
    const context = sourceContext(bench, s3Source as never, { config: configOf() })
    const found = await s3Source.describe(context as never, ['pq', 'js', 'cs', 'none'])
    assert.deepEqual(
      found.map(({ columns }) => columns?.map(({ name, type }) => `${name} ${type}`).join(', ') ?? null),
      [
        'id int64, name text, score decimal(12,2)',
        'id int64, name text, score decimal, even boolean, tags json',
        'id int64, day date',
        null,
      ],
    )
  })
})

describe('an incremental read', () => {
  const at = (second: number): Date => new Date(Date.UTC(2026, 0, 10, 12, 0, second))

  it('takes every new object once: ties, late ones and overwritten ones included', async () => {
    server.pageSize = 2
    put('inc/b.jsonl', '{"v":"b"}\n', at(10))
    put('inc/c.jsonl', '{"v":"c"}\n', at(20))
    let job = jobOf('inc', {}, true)
    let outcome = await bench.run(job)
    const next = async (): Promise<string[]> => {
      job = bench.next(job, outcome)
      outcome = await bench.run(job)
      return (await rowsOf(outcome)).map((row) => JSON.parse(row).v)
    }
    assert.deepEqual(await next(), [])
    put('inc/a.jsonl', '{"v":"a, as old as c"}\n', at(20))
    put('inc/d.jsonl', '{"v":"d, older than all"}\n', at(1))
    assert.deepEqual(await next(), ['d, older than all', 'a, as old as c'])
    put('inc/b.jsonl', '{"v":"b again"}\n', at(30))
    assert.deepEqual(await next(), ['b again'])
    assert.deepEqual(await next(), [])
  })

  it('resumes in the middle of an object, and reads nothing twice', async () => {
    put('res/a.jsonl', lines(plainRows(30_000)), at(1))
    put('res/b.jsonl', lines(plainRows(10, 30_001)), at(2))
    const job = jobOf('res', {}, true)
    assert.ok(await bench.crash(job, 'commit:after', 2, { checkpointRecords: 5000 }))
    assertSameRows(await rowsOf(await bench.run(bench.again(job))), plainRows(30_010))
  })

  it('remembers what is within reach, and never forgets what is still to be read', () => {
    const object = (key: string, seconds: number) => ({ key, size: 1, etag: key, modified: at(seconds) })
    const seen = new SeenObjects(null, 168)
    for (let n = 0; n < 70_000; n++) seen.add(object(`k${n}`, n))
    assert.ok(seen.isCrowded)
    const again = new SeenObjects(JSON.parse(JSON.stringify(seen.state)), 168)
    again.prune()
    assert.ok(JSON.stringify(again.state).length < 2_000_000)
    for (const n of [0, 1, 19_999, 69_999]) assert.equal(again.isNew(object(`k${n}`, n)), false, `k${n}`)
    assert.ok(again.isNew(object('late', 69_990)))
    assert.ok(again.isNew(object('k69999', 70_001)))
    // A clock in the future must not make the rest look old.
    const ahead = new SeenObjects(null, 1)
    ahead.add({ ...object('future', 0), modified: new Date('2999-01-01') })
    ahead.prune()
    assert.ok(ahead.isNew({ ...object('now', 0), modified: new Date() }))
  })
})

describe('an object that changes', () => {
  /** Calls back at the nth request for an object, before it is answered. */
  const atRequest = (nth: number, act: (response: ServerResponse) => boolean): void => {
    let seen = 0
    server.intercept = (request, response) =>
      request.method === 'GET' && !request.url!.includes('list-type') && ++seen === nth && act(response)
  }

  it('before it is read is read as it is then', async () => {
    put('ch/a.jsonl', '{"v":1}\n')
    put('ch/b.jsonl', '{"v":2}\n')
    put('ch/c.jsonl', '{"v":3}\n')
    atRequest(2, () => {
      put('ch/b.jsonl', '{"v":"new"}\n')
      server.objects.delete('ch/c.jsonl')
      return false
    })
    assert.deepEqual(await read('ch'), ['{"v":1}', '{"v":"new"}'])
  })

  it('while it is read fails the run with a sentence', async () => {
    put('ch/a.jsonl', lines(plainRows(50_000)))
    atRequest(1, (response) => {
      const body = server.objects.get('ch/a.jsonl')!.body
      response.writeHead(200, { 'content-length': body.length })
      response.write(body.subarray(0, 1_000_000), () => response.destroy())
      put('ch/a.jsonl', '{"v":"new"}\n')
      return true
    })
    await assert.rejects(read('ch'), /'ch\/a.jsonl' was changed or deleted while it was being read; run again/)
  })

  it('not, is read to its end although the connection breaks again and again', async () => {
    const rows = plainRows(50_000)
    put('ch/a.jsonl', lines(rows))
    let left = 3
    server.intercept = (request, response) => {
      if (request.url!.includes('list-type') || left-- <= 0) return false
      const { body } = server.objects.get('ch/a.jsonl')!
      const start = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0)
      const status = request.headers.range ? 206 : 200
      const range = { 'content-range': `bytes ${start}-${body.length - 1}/${body.length}` }
      response.writeHead(status, { 'content-length': body.length - start, ...(status === 206 ? range : {}) })
      response.write(body.subarray(start, start + 500_000), () => response.destroy())
      return true
    }
    assertSameRows(await read('ch'), rows)
    assert.equal(left, -1)
  })
})
