/** JSON lines to Parquet in chunks: the same file as record by record, exactly once, whatever the lines hold. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, beforeEach, describe, it, type TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { convertLines } from '../../src/connectors/formats/convert-lines.ts'
import { gatherLines } from '../../src/connectors/formats/gather-lines.ts'
import { ParquetJoin } from '../../src/connectors/formats/join-parquet.ts'
import { LineSurvey, surveyLines } from '../../src/connectors/formats/line-survey.ts'
import type { SurveyedLines } from '../../src/connectors/formats/local-table.ts'
import { chooseOutputColumns } from '../../src/connectors/formats/output-columns.ts'
import type { ColumnFacts } from '../../src/connectors/types/column-facts.ts'
import type { Job } from '../../src/engine/execute.ts'
import { type FileServer, startFileServer } from '../harness/file-server.ts'
import { type ParquetContent, parquetContent } from '../harness/parquet-content.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'
import { readManifest, readTarget } from '../harness/s3-target.ts'

const range = (count: number, line: (at: number) => string): string[] =>
  Array.from({ length: count }, (_, at) => line(at))

async function* pagesOf(lines: readonly string[]): AsyncGenerator<SurveyedLines> {
  const survey = new LineSurvey()
  for (const line of lines) {
    const bytes = Buffer.from(`${line}\n`)
    surveyLines(survey, bytes)
    yield { bytes, records: 1, facts: survey.take() }
  }
}

const choose = (facts: ColumnFacts[]) => chooseOutputColumns(null, facts, null).columns

async function convert(lines: readonly string[], chunkBytes: number): Promise<ParquetContent> {
  const { signal } = new AbortController()
  const { pages } = convertLines({ pages: pagesOf(lines) }, { choose, compression: 'none', signal }, chunkBytes)
  let file: Buffer[] = []
  let records = 0
  for await (const page of pages) {
    if (page.restart) file = []
    file.push(page.bytes)
    records += page.records
  }
  assert.equal(records, lines.length)
  return parquetContent(Buffer.concat(file))
}

async function useTemporaryFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-empty-'))
  const usual = process.env.TMPDIR
  process.env.TMPDIR = folder
  t.after(async () => {
    if (usual === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = usual
    await rm(folder, { recursive: true })
  })
  return folder
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const value = fc.oneof(
  fc.integer().map(String),
  fc.tuple(fc.integer(), fc.nat()).map(([whole, part]) => `${whole}.${part}`),
  fc.string().map((text) => JSON.stringify(text)),
  fc.constantFrom('-0', '0.10', '1e5', '9223372036854775808', '12345678.123456789', '"\\u0000"', '"\\ud83d\\ude00"'),
  fc.constantFrom('"2024-02-29"', '"2024-02-30"', '"2024-01-01T00:00:00"', '"2024-01-01T00:00:00.5+01:00"', '""'),
  fc.constantFrom('true', 'false', 'null', 'null', '[1, {"a": 0.10}]', '{"b":"}"}'),
)
const line = fc
  .array(fc.tuple(fc.constantFrom('"a"', '"b"', '"é"', '"\\u00e9"', '"A"'), value), { maxLength: 4 })
  .map((fields) => `{${fields.map(([name, each]) => `${name}:${each}`).join(',')}}`)

describe('JSON lines converted in chunks', () => {
  it('are the same file as in one piece, wherever they are cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 1, max: 90 }),
        async (lines, bytes) =>
          assert.deepEqual(await convert(lines, bytes), await convert(lines, Number.POSITIVE_INFINITY)),
      ),
      {
        numRuns: 25,
        examples: [
          [['{}', '{"a":true}'], 1],
          [['{"a":true}', '{}', '{}'], 1],
        ],
      },
    )
  })

  it('of one type each are joined in order, with more chunks than a byte can count', async () => {
    const lines = range(700, (at) => `{"id":${at},"name":"n${at % 7}","none":${at === 500 ? '"x"' : 'null'}}`)
    const { rows } = await convert(lines, 60)
    assert.deepEqual(
      rows.map(([id]) => id),
      range(700, String),
    )
    assert.deepEqual(rows[500], ['500', 'n3', 'x'])
  })

  it('need memory for the footer of what they become, not many times as much', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'sluice-wide-'))
    t.after(() => rm(folder, { recursive: true }))
    const wide = `{${range(300, (at) => `"c${at}":"${at}"`).join(',')}}`
    const { signal } = new AbortController()
    const pages = convertLines({ pages: pagesOf([wide]) }, { choose, compression: 'none', signal }).pages
    const file = path.join(folder, 'wide.parquet')
    await writeFile(file, Buffer.concat((await Array.fromAsync(pages)).map(({ bytes }) => bytes)))
    const join = new ParquetJoin()
    const joined: Buffer[] = []
    const used = () => {
      collectGarbage()
      const { heapUsed, arrayBuffers } = process.memoryUsage()
      return heapUsed + arrayBuffers
    }
    const append = async () => {
      for await (const bytes of join.append(file)) joined.push(bytes)
    }
    await append()
    const size = (await stat(file)).size
    const before = used()
    for (let count = 1; count < 200; count += 1) await append()
    const kept = used() - before - joined.reduce((sum, { length }) => sum + length, 0)
    const footer = join.finish()
    t.diagnostic(`200 files of ${size} bytes: ${kept} bytes are kept for a footer of ${footer.length}`)
    // Maps of the fields would be fifty times as large.
    assert.ok(kept < 5 * footer.length, `${kept} bytes for a footer of ${footer.length}`)
    const { rows } = await parquetContent(Buffer.concat([...joined, footer]))
    assert.deepEqual([rows.length, rows[199]![299]], [200, '299'])
  })

  it('that go through a CSV keep it only as long as it is read', async (t) => {
    const folder = await useTemporaryFolder(t)
    const lines = range(60, (at) => `{"id":${at},"n":[${at}]}`)
    const { signal } = new AbortController()
    let most = 0
    let seen = 0
    const watch = (pages: AsyncIterable<SurveyedLines>) =>
      convertLines({ pages }, { choose, compression: 'none', signal }, 20).pages
    for await (const _ of watch(pagesOf(lines))) {
      const csvs = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.csv')).length
      most = Math.max(most, csvs)
      seen += csvs
    }
    assert.ok(most <= 2, `${most} at once`)
    assert.ok(seen > 0, 'the lines did not go through a CSV')
  })

  it('leave nothing on the disk when they are damaged or cancelled', async (t) => {
    const folder = await useTemporaryFolder(t)
    const stop = new AbortController()
    async function* broken(): AsyncGenerator<SurveyedLines> {
      yield* pagesOf(range(50, (at) => `{"id":${at}}`))
      throw new Error('the connection broke')
    }
    async function* cancelled(): AsyncGenerator<SurveyedLines> {
      yield* pagesOf(range(50, (at) => `{"id":${at}}`))
      stop.abort(new Error('cancelled'))
      yield* pagesOf(['{"id":1}'])
    }
    const conversion = { choose, compression: 'none' as const, signal: stop.signal }
    const convertAll = (pages: AsyncIterable<SurveyedLines>) =>
      Array.fromAsync(convertLines({ pages }, conversion, 20).pages)
    await assert.rejects(convertAll(broken()), /the connection broke/)
    await assert.rejects(convertAll(cancelled()), /cancelled/)
    assert.deepEqual(await readdir(folder), [])
  })
})

describe('lines that are gathered', () => {
  it('are whole in every page, and all of them come', async () => {
    const text = range(200, (at) => 'x'.repeat((at * 37) % 90)).join('\n')
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 200 }), async (cut, pageBytes) => {
        async function* chunks(): AsyncGenerator<Buffer> {
          for (let at = 0; at < text.length; at += cut) yield Buffer.from(text.slice(at, at + cut))
        }
        let all = ''
        for await (const page of gatherLines(chunks(), { pageBytes })) {
          assert.equal(page.at(-1), 10)
          all += page.toString()
        }
        assert.equal(all, `${text}\n`)
      }),
    )
  })
})

let bench: RunBench
let files: FileServer
let bucket: S3Server
before(async () => {
  bench = await openRunBench()
  files = await startFileServer()
  bucket = await startS3Server()
})
after(async () => {
  await bucket.close()
  await files.close()
  await bench.close()
})
beforeEach(() => {
  bucket.objects.clear()
  bucket.uploads.clear()
})

/** A choice of columns that changes nothing makes the engine read record by record. */
const oneByOne: Partial<Job> = { columns: { exclude: ['no such column'] } }

const FILES: Record<string, string[]> = {
  'all types': range(
    3000,
    (at) =>
      `{"id":${at},"amount":${at}.50,"ok":${at % 2 === 0},"day":"2024-01-1${at % 10}","name":"n ${at}, \\"x\\"","none":null}`,
  ),
  'a field that becomes text far into the file': [
    ...range(16_000, (at) => `{"a":${at},"note":"${'x'.repeat(900)}"}`),
    '{"a":"N/A"}',
  ],
  'a field that comes far into the file': [
    ...range(16_000, (at) => `{"a":${at},"note":"${'x'.repeat(900)}"}`),
    '{"b":1.5}',
  ],
  'nested values and more digits than a double has': ['{"a":[1,{"b":0.10}],"n":0.12345678901234567890}', '{"n":1}'],
  'records without fields': ['{}', '{"a":1}', '{}'],
  'a very long line': ['{"a":1}', `{"a":2,"long":"${'x'.repeat(20_000_000)}"}`],
}

function jobOf(url: string, overrides: Partial<Job> = {}): Job {
  const source = { name: 'file', stream: 'rows', config: { url } }
  return bench.job({ source, destination: { name: 'file', config: { format: 'parquet' } } }, overrides)
}

describe('a file of JSON lines converted as a whole', () => {
  for (const [name, lines] of Object.entries(FILES))
    it(`is the same file as record by record: ${name}`, async () => {
      const url = files.put(`${Math.random()}.jsonl`, lines.join('\n'))
      const [whole, single] = [await bench.run(jobOf(url)), await bench.run(jobOf(url, oneByOne))]
      assert.deepEqual(
        await parquetContent(await bench.readOutput(whole)),
        await parquetContent(await bench.readOutput(single)),
      )
      assert.equal(whole.records_read, lines.length)
      assert.equal(whole.records_written, single.records_written)
    })

  it('may be a JSON array, and is refused with the number of a line that is no object', async () => {
    const array = await bench.run(jobOf(files.put('array.json', '[{"a":1},\n {"a":2}]')))
    assert.deepEqual((await parquetContent(await bench.readOutput(array))).rows, [['1'], ['2']])
    const url = files.put('bad.jsonl', `${range(9, (at) => `{"a":${at}}`).join('\n')}\n[]\n`)
    await assert.rejects(bench.run(jobOf(url)), /Line 10 of the file is valid JSON but not an object/)
  })

  it('without records has the columns of the last one', async () => {
    const schema = [{ name: 'a', type: 'int64' as const }]
    const none = await bench.run(jobOf(files.put('none.jsonl', '\n'), { schema }))
    assert.deepEqual((await parquetContent(await bench.readOutput(none))).types, [['a', 'BIGINT']])
  })
})

function s3Config(): Record<string, unknown> {
  const { bucket: name, endpoint, region, accessKeyId, secretAccessKey } = bucket
  const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey }
  return { bucket: name, endpoint, region, ...keys, format: 'parquet' }
}

function s3Job(url: string): Job {
  const source = { name: 'file', stream: 'rows', config: { url } }
  return bench.job({ source, destination: { name: 's3', config: s3Config() } })
}

/** Long enough that some of it was sent before its end says that a field is text. */
const CHANGING = [...range(16_000, (at) => `{"a":${at},"note":"${'x'.repeat(900)}"}`), '{"a":"N/A","note":null}']

const LINES = range(500, (at) => `{"id":${at},"name":"n${at}"}`)

describe('a file of JSON lines to Parquet on s3', () => {
  it('is one object, exactly once, whatever the worker was doing when it was killed', async () => {
    const url = files.put('rows.jsonl', LINES.join('\n'))
    const probe = bench.start(s3Job(url))
    await probe.done
    assert.equal((await readManifest(s3Config()))!.objects.length, 1)
    for (const point of new Set(probe.points.slice(probe.points.indexOf('convert:before')))) {
      bucket.objects.clear()
      const job = s3Job(url)
      assert.ok(await bench.crash(job, point, 1), point)
      const outcome = await bench.run(bench.again(job))
      assert.deepEqual(await readTarget(s3Config()), LINES, point)
      assert.equal(outcome.records_read, 500, point)
      const [object] = (await readManifest(s3Config()))!.objects
      assert.ok((await bench.readOutput(outcome)).equals(bucket.objects.get(object!.key)!.body), point)
    }
  })

  it('holds each record once after a crash between two chunks, and so does the file of the run', async () => {
    const lines = range(10_000, (at) => `{"id":${at},"note":"${'x'.repeat(1000)}"}`)
    const url = files.put('chunks.jsonl', lines.join('\n'))
    for (const make of [s3Job, jobOf]) {
      const probe = bench.start(make(url))
      await probe.done
      const passed = probe.points.filter((point) => point === 'converted').length
      assert.ok(passed >= 4, 'there are several chunks')
      for (const nth of [2, passed - 1]) {
        bucket.objects.clear()
        const job = make(url)
        assert.ok(await bench.crash(job, 'converted', nth))
        const outcome = await bench.run(bench.again(job))
        const file = await bench.readOutput(outcome)
        assert.deepEqual(
          (await parquetContent(file)).rows.map(([id]) => id),
          range(10_000, String),
          `after ${nth} pages`,
        )
        assert.equal(outcome.records_written, 10_000)
        if (make !== s3Job) continue
        const [object, ...others] = (await readManifest(s3Config()))!.objects
        assert.deepEqual(others, [])
        assert.ok(file.equals(bucket.objects.get(object!.key)!.body))
      }
    }
  })

  it('begins anew where later lines need other columns', async () => {
    const outcome = await bench.run(s3Job(files.put('changing.jsonl', CHANGING.join('\n'))))
    const [object, ...others] = (await readManifest(s3Config()))!.objects
    assert.deepEqual(others, [])
    assert.equal(bucket.uploads.size, 0)
    const file = await bench.readOutput(outcome)
    assert.ok(file.equals(bucket.objects.get(object!.key)!.body))
    const { types, rows } = await parquetContent(file)
    assert.deepEqual(types[0], ['a', 'VARCHAR'])
    assert.deepEqual(
      rows.map(([a]) => a),
      [...range(16_000, String), 'N/A'],
    )
    assert.equal(outcome.bytes_written, file.length)
  })
})
