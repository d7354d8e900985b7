/** CSV to Parquet in one query of DuckDB: the same file as row by row, exactly once, whatever the cells hold. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import { type FileServer, startFileServer } from '../harness/file-server.ts'
import { type ParquetContent, parquetContent } from '../harness/parquet-content.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'
import { readManifest, readTarget } from '../harness/s3-target.ts'

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

const range = (count: number, line: (at: number) => string): string[] =>
  Array.from({ length: count }, (_, at) => line(at))

function jobOf(url: string, { config = {}, overrides = {} }: { config?: object; overrides?: Partial<Job> } = {}): Job {
  const source = { name: 'file', stream: 'rows', config: { url, ...config } }
  return bench.job({ source, destination: { name: 'file', config: { format: 'parquet' } } }, overrides)
}

const contentOf = async (outcome: Outcome): Promise<ParquetContent> => parquetContent(await bench.readOutput(outcome))

/** A choice of columns that changes nothing makes the engine read row by row. */
const rowByRow: Partial<Job> = { columns: { exclude: ['no such column'] } }

const wide = 'x'.repeat(2_500_000)
const FILES: Record<string, string[]> = {
  'all types': [
    'id,amount,ok,day,at,zoned,name,none',
    ...range(3000, (at) => {
      const day = `20${String(at % 90).padStart(2, '0')}-01-1${at % 10}`
      return `${at},${at}.5,${at % 2 === 0},${day},${day}T10:00:00.${at % 9}5,${day}T10:00:00+01:30,"n ${at}, ""x""",`
    }),
  ],
  'an integer column with a text at the end': ['a', ...range(3000, String), 'N/A'],
  'an integer column with 007 at the end': ['a', ...range(3000, String), '007'],
  'an integer column with a blank': ['a', ...range(3000, String), '" 7"'],
  'an integer column with a fraction at the end': ['a', ...range(3000, String), '0.25'],
  'an integer column that becomes too long': ['a', ...range(3000, String), '9223372036854775808'],
  'a decimal column with more digits at the end': ['a', ...range(3000, (at) => `${at}.25`), '1.12345678901234567890'],
  'numbers with exponents': ['a', ...range(3000, (at) => `${at}.25`), '1e3', '-2.5E-7', '-0'],
  'a column that is empty for long': ['a,b', ...range(3000, (at) => `${at},`), '1,5', '2,true'],
  'a boolean column with another word at the end': ['a', ...range(3000, () => 'true'), 'TRUE'],
  'days that do not exist': [
    'a,b',
    ...range(3000, () => '2024-02-29,2024-01-01T00:00:00'),
    '2023-02-29,2023-02-30T00:00:00',
  ],
  'the year 0 and an hour 24': [
    'a,b',
    ...range(3000, () => '2024-01-01,2024-01-01T00:00:00Z'),
    '0000-01-01,2024-01-01T24:00:00Z',
  ],
  'times with and without a zone': ['a', ...range(3000, () => '2024-01-01T00:00:00'), '2024-01-01T00:00:00Z'],
  'quotes only at the end': ['a,b', ...range(30_000, (at) => `${at},x`), '1,"y, ""z"""', '2,""'],
  'a very long line': ['a,b', ...range(10, (at) => `${at},x`), `1,${wide}`],
  'other delimiters and ends of lines': ['a;b\r', ...range(3000, (at) => `${at};"x;${at}"\r`)],
  'names that differ in case, and an empty one': ['Id,id,', ...range(10, (at) => `${at},x,y`)],
  'one column': ['a', '1', '2'],
  'many chunks': ['a,b', ...range(23_000, (at) => `${at},"x, ${at}\n${'y'.repeat(650)}"`)],
  'a cell that does not fit, after many chunks': ['a,b', ...range(23_000, (at) => `${at},${'y'.repeat(650)}`), '0.5,'],
  'a column that is empty for many chunks': ['a,b', ...range(23_000, (at) => `${'y'.repeat(650)}${at},`), 'x,7'],
  'a quote within a cell, after many chunks': ['a,b', ...range(23_000, (at) => `${at},${'y'.repeat(650)}`), '1,5" x'],
}

describe('a CSV converted as a whole', () => {
  for (const [name, lines] of Object.entries(FILES))
    it(`is the same file as row by row: ${name}`, async () => {
      const url = files.put(`${Math.random()}.csv`, `${lines.join('\n')}\n`)
      const [whole, rows] = [await bench.run(jobOf(url)), await bench.run(jobOf(url, { overrides: rowByRow }))]
      assert.deepEqual(await contentOf(whole), await contentOf(rows))
      assert.equal(whole.records_read, lines.length - 1)
      assert.equal(whole.records_written, rows.records_written)
    })

  it('keeps its columns for the pipeline, and a file without rows has them', async () => {
    const attempt = bench.start(jobOf(files.put('some.csv', 'a,b\n1,x\n')))
    await attempt.done
    const columns = [
      { name: 'a', type: 'int64' as const },
      { name: 'b', type: 'text' as const },
    ]
    assert.deepEqual(attempt.schemas, [{ columns, changes: [] }])
    const empty = await bench.run(jobOf(files.put('none.csv', 'a,b\n'), { overrides: { schema: columns } }))
    assert.deepEqual((await contentOf(empty)).types, [
      ['a', 'BIGINT'],
      ['b', 'VARCHAR'],
    ])
  })

  it('that is damaged fails with a sentence that names no path of this machine', async () => {
    const url = files.put('bad.csv', `a,b\n${range(30_000, (at) => `${at},x`).join('\n')}\n1,2,3\n`)
    await assert.rejects(bench.run(jobOf(url)), (error: unknown) => {
      assert.ok(error instanceof ConnectorError)
      assert.equal(error.kind, 'source')
      assert.match(error.message, /^The file could not be read/)
      assert.doesNotMatch(error.message, /sluice-file-|\/tmp/)
      return true
    })
  })

  it('with a choice of columns is read row by row', async () => {
    const url = files.put('choice.csv', 'a,b,c\n1,x,y\n')
    const columns = { include: ['a', 'b'], rename: { a: 'id' }, hash: ['b'] }
    const { types } = await contentOf(await bench.run(jobOf(url, { overrides: { columns } })))
    assert.deepEqual(types, [
      ['id', 'BIGINT'],
      ['b', 'VARCHAR'],
    ])
  })
})

function s3Config(more: object = {}): Record<string, unknown> {
  const { bucket: name, endpoint, region, accessKeyId, secretAccessKey } = bucket
  const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey }
  return { bucket: name, endpoint, region, ...keys, format: 'parquet', ...more }
}

function s3Job(url: string, overrides: Partial<Job> = {}, more: object = {}): Job {
  const source = { name: 'file', stream: 'rows', config: { url } }
  return bench.job({ source, destination: { name: 's3', config: s3Config(more) } }, overrides)
}

const LINES = ['id,name', ...range(500, (at) => `${at},n${at}`)]
const EXPECTED = range(500, (at) => `{"id":${at},"name":"n${at}"}`)

describe('a CSV to Parquet on s3', () => {
  it('is one object, and the output is the same file', async () => {
    const outcome = await bench.run(s3Job(files.put('rows.csv', LINES.join('\n'))))
    assert.deepEqual(await readTarget(s3Config()), EXPECTED)
    const [object] = (await readManifest(s3Config()))!.objects
    assert.equal(outcome.output?.extension, 'parquet')
    assert.ok((await bench.readOutput(outcome)).equals(bucket.objects.get(object!.key)!.body))
  })

  it('leaves nothing with us where no output is kept', async () => {
    const job = s3Job(files.put('rows.csv', LINES.join('\n')), { keep_output: false })
    assert.equal((await bench.run(job)).output, null)
    const left = await Array.fromAsync(bench.blobs.list(''), ({ key }) => key)
    assert.deepEqual(
      left.filter((key) => key.includes(job.run_id)),
      [],
    )
    assert.deepEqual(await readTarget(s3Config()), EXPECTED)
  })

  it('is exactly once, whatever the worker was doing when it was killed', async () => {
    const url = files.put('rows.csv', LINES.join('\n'))
    const probe = bench.start(s3Job(url))
    await probe.done
    // Before anything is stored, each is the same.
    for (const point of new Set(probe.points.slice(probe.points.indexOf('convert:before')))) {
      bucket.objects.clear()
      const job = s3Job(url)
      assert.ok(await bench.crash(job, point, 1), point)
      const outcome = await bench.run(bench.again(job))
      assert.deepEqual(await readTarget(s3Config()), EXPECTED, point)
      assert.equal(outcome.records_read, 500, point)
      const [object] = (await readManifest(s3Config()))!.objects
      assert.ok((await bench.readOutput(outcome)).equals(bucket.objects.get(object!.key)!.body), point)
    }
  })

  it('sends what was stored without reading the file again', async () => {
    const url = files.put('once.csv', LINES.join('\n'))
    const job = s3Job(url)
    assert.ok(await bench.crash(job, 'save:after', 1))
    files.put('once.csv', 'id,name\n1,changed\n')
    const again = bench.start(bench.again(job))
    await again.done
    assert.deepEqual(await readTarget(s3Config()), EXPECTED)
    assert.deepEqual(
      again.schemas.flatMap(({ columns }) => columns.map(({ name, type }) => `${name} ${type}`)),
      ['id int64', 'name text'],
    )
  })

  it('keeps and widens the types that the manifest has, and knows what fail and discard mean', async () => {
    const first = s3Job(files.put('one.csv', 'a,b\n1,x\n'), {}, {})
    await bench.run({ ...first, sync: { ...first.sync, write: 'append' } })
    const next = (lines: string, sync: Partial<Job['sync']>): Job => {
      const job = s3Job(files.put('two.csv', lines))
      return { ...job, pipeline_id: first.pipeline_id, sync: { ...job.sync, write: 'append', ...sync } }
    }
    await assert.rejects(bench.run(next('a,b,c\n1,x,y\n', { schema_change: 'fail' })), /new field c/)
    await bench.run(next('a,c\n2,y\n', { schema_change: 'discard' }))
    await bench.run(next('a,b\n0.5,z\n', {}))
    assert.deepEqual(await readTarget(s3Config()), ['{"a":1,"b":"x"}', '{"a":2,"b":null}', '{"a":0.5,"b":"z"}'])
  })

  it('is read row by row where it is divided into folders', async () => {
    await bench.run(s3Job(files.put('parts.csv', 'k,v\na,1\nb,2\n'), {}, { partition_by: [{ field: 'k' }] }))
    assert.equal((await readManifest(s3Config()))!.objects.length, 2)
  })
})
