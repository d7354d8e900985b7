import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, it } from 'node:test'
import { type Column, ConnectorError, type Source, type Sync } from '../../src/connectors/contract.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import { lineSource } from '../harness/line-source.ts'
import { type AttemptOptions, openRunBench, type RunBench } from '../harness/run-bench.ts'

let bench: RunBench
let folder: string
before(async () => {
  bench = await openRunBench()
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-sqlite-'))
})
after(async () => {
  await bench.close()
  await rm(folder, { recursive: true })
})

const destination = { name: 'sqlite', config: { table: 't' } }
let made = 0

/** A pipeline into the table t; each run has rows and settings of its own. */
function openPipeline(pipelineSync: Partial<Sync> = {}) {
  let earlier: Job | null = null
  return {
    async run(rows: string[], sync: Partial<Sync> = {}, columns: Column[] | null = null, options?: AttemptOptions) {
      const plain = lineSource(rows)
      const source: Source = { ...plain, read: async (context) => ({ ...(await plain.read(context)), columns }) }
      const job = bench.job({ source, destination, sync: { write: 'append', ...pipelineSync, ...sync } })
      if (earlier) Object.assign(job, { pipeline_id: earlier.pipeline_id })
      earlier = job
      const attempt = bench.start(job, options)
      const outcome = await attempt.done
      return { outcome, log: attempt.log, changes: attempt.schemas.flatMap(({ changes }) => changes) }
    },
  }
}

async function openOutput(outcome: Outcome): Promise<DatabaseSync> {
  const file = path.join(folder, `${++made}.sqlite`)
  await writeFile(file, await bench.readOutput(outcome))
  return new DatabaseSync(file, { readOnly: true })
}

/** Declared types by column, and the rows with their storage classes. */
async function look(outcome: Outcome, order = '1'): Promise<{ types: Record<string, string>; rows: unknown[][] }> {
  const db = await openOutput(outcome)
  const columns = db.prepare('SELECT name, type FROM pragma_table_info(?)').all('t') as { name: string; type: string }[]
  const select = db.prepare(`SELECT * FROM t ORDER BY ${order}`)
  select.setReturnArrays(true)
  select.setReadBigInts(true)
  const rows = select.all() as unknown as unknown[][]
  db.close()
  return { types: Object.fromEntries(columns.map(({ name, type }) => [name, type])), rows }
}

function fails(work: Promise<unknown>, kind: string, message: RegExp): Promise<void> {
  return assert.rejects(work, (error: unknown) => {
    assert.ok(error instanceof ConnectorError, String(error))
    assert.equal(error.kind, kind, error.message)
    assert.match(error.message, message)
    return true
  })
}

it('stores every declared type as its documented form', async () => {
  const columns: Column[] = [
    { name: 'yes', type: 'boolean' },
    { name: 'small', type: 'int16' },
    { name: 'large', type: 'int64' },
    { name: 'ratio', type: 'float32' },
    { name: 'price', type: 'decimal(10,2)' },
    { name: 'exact', type: 'decimal(38,20)' },
    { name: 'bytes', type: 'bytes' },
    { name: 'day', type: 'date' },
    { name: 'clock', type: 'time' },
    { name: 'local', type: 'timestamp' },
    { name: 'moment', type: 'timestamptz' },
    { name: 'span', type: 'interval' },
    { name: 'id', type: 'uuid' },
    { name: 'list', type: 'int32[]' },
    { name: 'empty', type: 'date' },
  ]
  const uuid = '00000000-0000-4000-8000-000000000001'
  const { outcome } = await openPipeline().run(
    [
      `{"yes":true,"small":5,"large":9223372036854775807,"ratio":"NaN","price":9.90,"exact":0.12345678901234567890,"bytes":"\\\\x00ff","day":"2024-01-31","clock":"12:00:00","local":"2024-01-31T12:00:00.5","moment":"2024-01-31T12:00:00+05:30","span":"1 day","id":"${uuid}","list":[1,2],"empty":null}`,
    ],
    {},
    columns,
  )
  const { types, rows } = await look(outcome)
  assert.deepEqual(types, {
    yes: 'BOOLEAN',
    small: 'INTEGER',
    large: 'INTEGER',
    ratio: 'REAL',
    price: 'DECIMAL(10,2)',
    exact: 'DECIMAL TEXT',
    bytes: 'BLOB',
    day: 'DATE',
    clock: 'TIME',
    local: 'TIMESTAMP',
    moment: 'TIMESTAMPTZ',
    span: 'INTERVAL TEXT',
    id: 'UUID',
    list: 'JSON TEXT',
    empty: 'DATE',
  })
  assert.deepEqual(rows[0], [
    1n,
    5n,
    9223372036854775807n,
    'NaN',
    9.9,
    '0.12345678901234567890',
    new Uint8Array([0, 255]),
    '2024-01-31',
    '12:00:00',
    '2024-01-31 12:00:00.5',
    '2024-01-31 06:30:00+00:00',
    '1 day',
    uuid,
    '[1,2]',
    null,
  ])
  assert.equal(outcome.output!.extension, 'sqlite')
  assert.equal(outcome.output!.content_type, 'application/vnd.sqlite3')
})

it('widens columns for later runs without changing a value', async () => {
  const pipeline = openPipeline()
  await pipeline.run(['{"id":1,"n":9007199254740993,"f":0.1,"b":true,"d":"2024-01-31","j":5,"s":7}'])
  const { outcome, changes, log } = await pipeline.run([
    '{"id":2,"n":0.5,"f":0.12345678901234567890123,"b":"maybe","d":"2024-01-31T12:00:00","j":{"a":1},"s":"007","new":"x"}',
  ])
  const { types, rows } = await look(outcome)
  assert.deepEqual(types, {
    id: 'INTEGER',
    n: 'DECIMAL',
    f: 'DECIMAL TEXT',
    b: 'TEXT',
    d: 'TIMESTAMP',
    j: 'JSON TEXT',
    s: 'TEXT',
    new: 'TEXT',
  })
  assert.deepEqual(rows, [
    [1n, 9007199254740993n, '0.1', 'true', '2024-01-31 00:00:00', '5', '7', null],
    [2n, 0.5, '0.12345678901234567890123', 'maybe', '2024-01-31 12:00:00', '{"a":1}', '007', 'x'],
  ])
  assert.ok(changes.includes('widened column b from BOOLEAN to TEXT'), changes.join('; '))
  assert.ok(log.includes('info Table t: added column new TEXT.'), log.join('\n'))
  const third = await pipeline.run(['{"id":3,"n":1,"f":1,"b":"x","d":"2024-02-01","j":1,"s":"1"}'])
  assert.deepEqual(third.changes, [], 'what fits changes nothing')
})

it('leaves out what does not fit if the pipeline discards it, and says how much', async () => {
  const pipeline = openPipeline()
  await pipeline.run(['{"id":1,"n":5,"at":"2024-01-31"}'])
  const discarded = await pipeline.run(['{"id":2,"n":"x","at":"soon","more":1}'], { schema_change: 'discard' })
  assert.deepEqual((await look(discarded.outcome)).rows, [
    [1n, 5n, '2024-01-31'],
    [2n, null, null],
  ])
  assert.match(discarded.log.join('\n'), /warn 2 values do not fit/)
  assert.match(discarded.log.join('\n'), /warn Fields that t has no column for.*more/)
  await fails(
    pipeline.run(['{"id":3,"n":1.5}'], { schema_change: 'fail' }),
    'destination',
    /values of n no longer fit INTEGER, they need DECIMAL/,
  )
})

it('merges by a key that can change, and refuses one that cannot be', async () => {
  const pipeline = openPipeline()
  await pipeline.run(['{"a":1,"b":1,"v":"one"}', '{"a":1,"b":2,"v":"two"}'])
  const merged = await pipeline.run(['{"a":1,"b":2,"v":"new"}'], { write: 'upsert', primary_key: ['a', 'b'] })
  assert.deepEqual((await look(merged.outcome, 'b')).rows, [
    [1n, 1n, 'one'],
    [1n, 2n, 'new'],
  ])
  const upsert = (rows: string[], primary_key: string[]) => pipeline.run(rows, { write: 'upsert', primary_key })
  await fails(upsert(['{"a":1,"b":3}'], ['a']), 'destination', /already has rows with the same a/)
  await fails(upsert(['{"a":1,"b":null}', '{"a":1,"b":1}'], ['a', 'b']), 'destination', /no value in the primary key/)
  await fails(upsert(['{"a":1}'], ['c']), 'config', /primary_key names c, which no record has; they have a/)
  const appended = await pipeline.run(['{"a":1,"b":2,"v":"again"}'])
  assert.equal((await look(appended.outcome)).rows.length, 3, 'append needs no key')
})

it('keeps fields apart whose names differ only in case, from run to run', async () => {
  const pipeline = openPipeline()
  await pipeline.run(['{"id":1,"Id":"a"}'])
  const { outcome } = await pipeline.run(['{"Id":"b","id":2}'])
  const { types, rows } = await look(outcome)
  assert.deepEqual(Object.keys(types), ['id', 'Id_2'])
  assert.deepEqual(rows, [
    [1n, 'a'],
    [2n, 'b'],
  ])
})

it('fails rather than going on without the rows of a file that is gone', async () => {
  const pipeline = openPipeline()
  const { outcome } = await pipeline.run(['{"id":1}'])
  await bench.blobs.delete(outcome.output!.parts.map(({ key }) => key))
  const advice = /is gone.*DELETE \/api\/pipelines\/\{id\}\/state.*starts over/
  await fails(pipeline.run(['{"id":2}']), 'destination', advice)
  let reads = 0
  const job = bench.job({
    source: lineSource([], { beforePage: () => void reads++ }),
    destination,
    sync: { write: 'append' },
  })
  await fails(bench.run({ ...job, previous: { run_id: job.run_id, parts: null } }), 'destination', advice)
  assert.equal(reads, 0, 'before anything is read')
  await bench.run({ ...job, sync: { ...job.sync, write: 'replace' }, previous: { run_id: job.run_id, parts: null } })
  await fails(bench.run({ ...job, keep_output: false }), 'config', /keep_output/)
})

it('does not open a file that the pipeline cannot have written', async () => {
  const file = path.join(folder, 'foreign.sqlite')
  const db = new DatabaseSync(file)
  db.exec('CREATE TABLE t (id INTEGER); CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; END')
  db.close()
  const writer = await bench.blobs.writer('foreign')
  const { readFile } = await import('node:fs/promises')
  await writer.write(await readFile(file))
  const { size } = await writer.finish()
  const job = bench.job({ source: lineSource(['{"id":1}']), destination, sync: { write: 'append' } })
  const previous = { run_id: job.run_id, parts: [{ key: 'foreign', size }] }
  await fails(bench.run({ ...job, previous }), 'destination', /not one that this pipeline wrote.*Set another `table`/)
  await fails(
    bench.run({ ...job, previous: { run_id: job.run_id, parts: [{ key: 'foreign', size: size - 4096 }] } }),
    'destination',
    /damaged|cannot be read/,
  )
})

it('refuses names that SQLite reserves', async () => {
  const job = bench.job({ source: lineSource([]), destination })
  const { sqliteDestination } = await import('../../src/connectors/sqlite/destination/destination.ts')
  assert.throws(() => sqliteDestination.canonical!({ table: 'SQLite_stat' }, job.source.stream), /reserves names/)
})
