/** What the clickhouse destination does beyond the conformance suite: types, existing tables, views, sizes, a lost server. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { cutChunks } from '../../src/connectors/clickhouse/destination/chunks.ts'
import { clickhouseDestination } from '../../src/connectors/clickhouse/destination/destination.ts'
import { createTranscoder, Misfit } from '../../src/connectors/clickhouse/destination/transcode.ts'
import type { Column, Source, Sync } from '../../src/connectors/contract.ts'
import { isColumnType } from '../../src/connectors/types/column-types.ts'
import type { Job } from '../../src/engine/execute.ts'
import { Type } from '../../src/schema.ts'
import { type ChdbServer, findAbsence, startChdbServer, startServer, stopChdbServer } from '../harness/chdb-server.ts'
import { readJsonRows } from '../harness/clickhouse-rows.ts'
import { plainRows } from '../harness/conformance.ts'
import { lineSource } from '../harness/line-source.ts'
import { openPostgresBench } from '../harness/postgres-bench.ts'
import { fullRefresh, openRunBench, type RunBench } from '../harness/run-bench.ts'
import { sourceContext } from '../harness/source-context.ts'

const absence = await findAbsence()
if (absence !== null) console.log(`loading into clickhouse is not tested: ${absence}`)

let made = 0
/** Typed rows, as a database gives them. */
function typedSource(types: Record<string, string>, rows: readonly string[]): Source {
  const columns = Object.entries(types).map(([name, type]): Column => {
    assert.ok(isColumnType(type), type)
    return { name, type }
  })
  return {
    ...lineSource([]),
    name: `typed_${++made}`,
    settings: Type.Object({}),
    capabilities: { incremental: true, resumable: true, columns: false, encodings: ['tsv'] },
    async read() {
      async function* pages() {
        for (const [at, row] of rows.entries())
          yield { bytes: Buffer.from(`${row}\n`), records: 1, cursor: { line: at + 1 } }
      }
      return { columns, pages: pages() }
    },
  }
}

describe('a chunk', () => {
  it('ends after the same row, whatever pages the rows come in', () => {
    const rows = Array.from({ length: 100 }, (_, at) => `${'x'.repeat((at * 7) % 40)}\n`)
    const all = Buffer.from(rows.join(''))
    const limits = { bytes: 200, rows: 9 }
    const expected = [...cutChunks([all], limits)].map(String)
    assert.equal(expected.join(''), all.toString())
    assert.ok(expected.length > 10)
    for (const size of [1, 2, 5, 33]) {
      const pages = Array.from({ length: Math.ceil(100 / size) }, (_, at) =>
        Buffer.from(rows.slice(at * size, (at + 1) * size).join('')),
      )
      assert.deepEqual([...cutChunks(pages, limits)].map(String), expected)
    }
  })
})

describe('a value that ClickHouse would change without a word', () => {
  const cases: [string, string, string[], string[]][] = [
    ['Int8', 'int16', ['127', '-128'], ['128', '-129']],
    ['UInt64', 'decimal(20,0)', ['18446744073709551615', '0'], ['18446744073709551616', '-1', 'NaN']],
    ['Int64', 'decimal', ['9223372036854775807'], ['9223372036854775808', '1.5']],
    ['Decimal(10, 2)', 'decimal', ['12345678.90', '1e3'], ['123456789', '0.001', 'NaN']],
    ['Date', 'date', ['1970-01-01', '2148-12-31'], ['1969-12-31', '2149-12-31', 'infinity']],
    [
      "DateTime64(6, 'UTC')",
      'timestamptz',
      ['1900-01-01 00:00:00+00', '2299-12-31T23:59:59Z'],
      ['1899-12-31 23:59:59+00', '0044-03-15 00:00:00+00 BC', '1900-01-01T00:00:00+05:30'],
    ],
    ['DateTime', 'timestamp', ['1970-01-01 00:00:00'], ['2106-02-08 00:00:00', '-infinity']],
  ]
  for (const [sql, from, good, bad] of cases)
    it(`is refused by ${sql}`, () => {
      assert.ok(isColumnType(from))
      const transcode = createTranscoder([{ name: 'a', neutral: from, from, sql, nullable: true }])
      for (const value of [...good, '\\N']) assert.equal(transcode(Buffer.from(`${value}\n`)).toString(), `${value}\n`)
      for (const value of bad) assert.throws(() => transcode(Buffer.from(`${value}\n`)), Misfit, value)
    })
})

describe('the clickhouse destination', { skip: absence !== null }, () => {
  let server: ChdbServer
  let bench: RunBench
  let database: string
  let config: Record<string, unknown>
  before(async () => {
    if (absence !== null) return
    server = await startChdbServer()
    bench = await openRunBench()
    database = await server.createDatabase()
    const { host, port, user, password } = server
    config = { host, port, user, password, database, secure: false }
  })
  after(async () => {
    if (absence !== null) return
    await bench.close()
    await stopChdbServer()
  })
  const sql = (text: string) => server.sql(text, { database })
  const rowsOf = async (table: string) =>
    (await readJsonRows(server, database, table)).map((row) => JSON.parse(row) as Record<string, unknown>)
  const job = (source: Source, table: string, sync: Partial<Sync> = { write: 'append' }): Job =>
    bench.job({ source, destination: { name: 'clickhouse', config: { ...config, table } }, sync })
  const load = (wanted: Job) => bench.run(wanted, { destination: clickhouseDestination as never })

  const types = {
    id: 'int64',
    ok: 'boolean',
    s: 'int16',
    f: 'float32',
    g: 'float64',
    n: 'decimal',
    money: 'decimal(10,2)',
    t: 'text',
    b: 'bytes',
    d: 'date',
    clock: 'time',
    at: 'timestamp',
    z: 'timestamptz',
    u: 'uuid',
    j: 'json',
    l: 'text[]',
    flags: 'boolean[]',
    i: 'interval',
  }
  const typed = [
    '1',
    't',
    '-5',
    '0.1',
    '-Infinity',
    '12345678901234567890.123456789',
    '9.99',
    "tab\\t nl\\n bs\\\\ ff\\f vt\\v q' é",
    '\\\\x00ff5c0a',
    '2024-02-29',
    '10:11:12.5',
    '2024-02-29 10:00:00.25',
    '2024-01-01 08:00:00.123456+00',
    '9f0c3d2e-0000-4000-8000-000000000000',
    '{"a": 12345678901234567890.5}',
    '{"a b",NULL,"q\\\\""}',
    '{t,f,NULL}',
    '1 day -02:00:00',
  ]

  it('keeps every type, null or not, and its own source reads it back', async () => {
    const rows = [typed.join('\t'), `2${'\t\\N'.repeat(typed.length - 1)}`]
    for (const write of ['append', 'replace', 'upsert'] as const) {
      const table = `typed_${write}`
      await load(job(typedSource(types, rows), table, { write, primary_key: ['id'] }))
      const [first, second] = (await rowsOf(table)).sort((one, other) => Number(one.id) - Number(other.id))
      const { n: _n, j: _j, b: _b, ...rest } = first!
      assert.deepEqual(rest, {
        id: 1,
        ok: true,
        s: -5,
        f: 0.1,
        g: null,
        money: 9.99,
        t: "tab\t nl\n bs\\ ff\f vt\v q' é",
        d: '2024-02-29',
        clock: '10:11:12.5',
        at: '2024-02-29T10:00:00.250000',
        z: '2024-01-01T08:00:00.123456Z',
        u: '9f0c3d2e-0000-4000-8000-000000000000',
        l: ['a b', null, 'q"'],
        flags: [true, false, null],
        i: '1 day -02:00:00',
      })
      assert.deepEqual(await sql(`SELECT n, j, hex(b), g FROM ${table} WHERE id = 1`), [
        '12345678901234567890.123456789\t{"a": 12345678901234567890.5}\t00FF5C0A\t-inf',
      ])
      assert.equal(Object.values(second!).filter((value) => value !== null).length, 1)
      const back = bench.job(
        {
          source: { name: 'clickhouse', stream: table, config },
          destination: { name: 'file' },
          sync: {},
        },
        { columns: { exclude: write === 'upsert' ? ['_sluice_version'] : [] } },
      )
      const text = (await bench.readOutput(await bench.run(back))).toString()
      const line = text.split('\n').find((each) => each.startsWith('{"id":1,'))!
      assert.match(
        line,
        /"g":"-Infinity","n":12345678901234567890\.123456789,.*"b":"\\\\x00ff5c0a".*"at":"2024-02-29T10:00:00.250000","z":"2024-01-01T08:00:00.123456\+00:00".*"j":\{"a": 12345678901234567890.5\},"l":\["a b",null,"q\\""\]/,
      )
    }
  })

  it('takes the rows of a database as they are, without JSON in between', async () => {
    const p = await openPostgresBench()
    try {
      await p.query(`CREATE TABLE people (id int8 PRIMARY KEY, n numeric, at timestamptz, tags text[], raw bytea, ok boolean);
        INSERT INTO people VALUES (1, 12345678901234567890.5, '2024-01-01 10:00:00.5+02', '{a,"b c"}', '\\x00ff', true),
          (2, 'NaN', '0001-01-01 00:00:00+00', NULL, NULL, NULL)`)
      const outcome = await load(
        bench.job({
          source: { name: 'postgres', stream: 'public.people', config: p.config },
          destination: { name: 'clickhouse', config: { ...config, table: 'people' } },
          sync: { write: 'append' },
        }),
      )
      const [line] = (await bench.readOutput(outcome)).toString().split('\n')
      assert.match(line!, /^1\t12345678901234567890\.5\t2024-01-01 08:00:00\.5\+00\t/)
      // What no type of ClickHouse holds, and so its column, is text.
      assert.deepEqual(await sql('SELECT id, n, at, tags, hex(raw), ok FROM people ORDER BY id'), [
        '1\t12345678901234567890.5\t2024-01-01 08:00:00.5+00\t["a","b c"]\t00FF\ttrue',
        '2\tNaN\t0001-01-01 00:00:00+00\t\\N\t\\N\t\\N',
      ])
    } finally {
      await p.close()
    }
  })

  it('widens columns that hold rows already, and keeps the text of their values', async () => {
    const table = 'widened'
    const first = job(
      lineSource(['{"id":1,"n":7,"at":"2024-01-01T10:00:00.5Z","d":"2024-01-02","x":"2024-03-01","f":true}']),
      table,
    )
    await load(first)
    const wider = ['{"id":2,"n":1.5,"at":"0001-01-01T00:00:00Z","d":"2024-01-02T03:04:05","x":{"a":1},"f":"text"}']
    await load({ ...job(lineSource(wider), table), pipeline_id: first.pipeline_id })
    assert.deepEqual(await rowsOf(table).then((rows) => rows.sort((one, other) => Number(one.id) - Number(other.id))), [
      { id: 1, n: 7, at: '2024-01-01T10:00:00.5Z', d: '2024-01-02T00:00:00.000000', x: '2024-03-01', f: 'true' },
      { id: 2, n: 1.5, at: '0001-01-01T00:00:00Z', d: '2024-01-02T03:04:05.000000', x: { a: 1 }, f: 'text' },
    ])
  })

  it('finishes a widening that was cut off between the type and the values', async () => {
    await sql(
      "CREATE TABLE cut (id Nullable(Int64), at Nullable(DateTime64(6, 'UTC'))) ENGINE = MergeTree ORDER BY tuple()",
    )
    await sql(`INSERT INTO cut VALUES (1, '2024-01-01 10:00:00')`)
    await sql(`ALTER TABLE cut MODIFY COLUMN at Nullable(String) COMMENT 'sluice:from:timestamptz:text'`)
    await load(job(lineSource(['{"id":2,"at":"later"}']), 'cut'))
    assert.deepEqual(new Set(await sql('SELECT at FROM cut')), new Set(['2024-01-01T10:00:00Z', 'later']))
  })

  it('loads into a table that was there, with its keys and partitions', async () => {
    await sql(`CREATE TABLE premade (id UInt32, day Date, note LowCardinality(String) DEFAULT 'none', twice UInt64 MATERIALIZED id * 2)
      ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY id TTL day + INTERVAL 100 YEAR`)
    const rows = [
      '{"id":1,"day":"2024-01-01"}',
      '{"id":2,"day":"2024-02-01","twice":9}',
      '{"id":3,"day":"2024-03-01","more":"x"}',
    ]
    const wanted = job(lineSource(rows), 'premade')
    await load(wanted)
    assert.deepEqual(await sql('SELECT id, note, twice, more FROM premade ORDER BY id'), [
      '1\tnone\t2\t\\N',
      '2\tnone\t4\t\\N',
      '3\tnone\t6\tx',
    ])
    await load({
      ...job(lineSource(['{"id":4,"day":"2024-01-01"}']), 'premade', { write: 'replace' }),
      pipeline_id: wanted.pipeline_id,
    })
    assert.deepEqual(await sql('SELECT id FROM premade'), ['4'])
    assert.match((await sql('SHOW CREATE TABLE premade')).join(), /PARTITION BY toYYYYMM\(day\).*TTL day/s)
    await assert.rejects(
      load(job(lineSource(['{"id":-1,"day":"2024-01-01"}']), 'premade', { write: 'append', schema_change: 'fail' })),
      /id/,
    )
    await assert.rejects(load(job(lineSource(['{"id":5,"day":null}']), 'premade')), /no value for this column/)
    assert.deepEqual(await server.sql(`SELECT count() FROM ${database}.premade`), ['1'])
  })

  it('recognises repeated inserts also where the table does not', async () => {
    await sql('CREATE TABLE forgetful (id Nullable(Int64), name Nullable(String)) ENGINE = MergeTree ORDER BY tuple()')
    const options = { destination: clickhouseDestination as never, checkpointRecords: 10 }
    const doomed = job(lineSource(plainRows(20), { pageRecords: 10 }), 'forgetful')
    assert.ok(await bench.crash(doomed, 'clickhouse.stage.made', 1, options))
    const second = bench.again(doomed)
    assert.ok(await bench.crash(second, 'commit:after', 1, options))
    await bench.run(bench.again(second), options)
    assert.deepEqual(await sql('SELECT count(), uniqExact(id) FROM forgetful'), ['20\t20'])
  })

  it('previews what a load would change, and changes nothing', async () => {
    await sql('CREATE TABLE looked (id Int64, at DateTime) ENGINE = MergeTree ORDER BY id')
    const before = await sql('SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name')
    const look = (table: string, lines: string[], sync: Partial<Sync>) =>
      clickhouseDestination.preview!({
        ...sourceContext(bench, clickhouseDestination as never, { config: { ...config, table } }),
        stream: 'rows',
        sync: { ...fullRefresh, ...sync },
        encoding: 'ndjson',
        columns: null,
        pages: [{ bytes: Buffer.from(`${lines.join('\n')}\n`), records: lines.length }],
      } as never)
    const rows = ['{"id":1,"at":"2024-01-01T00:00:00.5Z","note":"x"}']
    assert.deepEqual(await look('looked', rows, { write: 'append' }), {
      columns: [
        { name: 'id', type: 'int64', nullable: false, native: { system: 'clickhouse', type: 'Int64' } },
        {
          name: 'at',
          type: 'timestamptz',
          nullable: false,
          native: { system: 'clickhouse', type: "DateTime64(6, 'UTC')" },
        },
        { name: 'note', type: 'text', nullable: true, native: { system: 'clickhouse', type: 'Nullable(String)' } },
      ],
      changes: ['adds column note String', "widens column at from DateTime to DateTime64(6, 'UTC')"],
      problems: [],
    })
    const upsert = await look('looked', rows, { write: 'upsert', primary_key: ['id'] })
    assert.match(upsert.problems.join(), /ReplacingMergeTree/)
    assert.deepEqual((await look('unmade', rows, { write: 'replace' })).changes, [`creates table ${database}.unmade`])
    assert.deepEqual(
      await sql('SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name'),
      before,
    )
  })

  it('refuses tables that it cannot load exactly once, and says what to do', async () => {
    await sql('CREATE TABLE in_memory (id Int64) ENGINE = Memory')
    await sql('CREATE VIEW seen AS SELECT 1 AS id')
    await sql('CREATE TABLE plain_one (id Int64) ENGINE = MergeTree ORDER BY id')
    const one = () => lineSource(['{"id":1}'])
    await assert.rejects(
      load(job(one(), 'in_memory')),
      /engine Memory; give the name of a table of the MergeTree family/,
    )
    await assert.rejects(load(job(one(), 'seen')), /seen is a view/)
    await assert.rejects(
      load(job(one(), 'plain_one', { write: 'upsert', primary_key: ['id'] })),
      /ReplacingMergeTree\(_sluice_version\)/,
    )
    await load(job(one(), 'by_id', { write: 'upsert', primary_key: ['id'] }))
    const other = ['{"id":1,"b":2}']
    await assert.rejects(
      load(job(lineSource(other), 'by_id', { write: 'upsert', primary_key: ['b'] })),
      /sorting key \(id\), but config\.sync\.primary_key is b/,
    )
    await assert.rejects(
      load(job(lineSource(['{"id":"text"}']), 'by_id', { write: 'upsert', primary_key: ['id'] })),
      /sorting key cannot be changed/,
    )
    await assert.rejects(
      load(job(lineSource(['{"b":1}']), 'keyless', { write: 'upsert', primary_key: ['id'] })),
      /primary_key names id, which the records do not have/,
    )
  })

  it('lets materialized views see every row once, also after a crash while publishing', async () => {
    await sql(
      'CREATE TABLE watched (id Int64, name Nullable(String), score Nullable(Decimal(76, 38)), even Nullable(Bool), tags Nullable(String)) ENGINE = MergeTree ORDER BY id',
    )
    await sql(
      'CREATE TABLE totals (n UInt64) ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 1000',
    )
    await sql('CREATE MATERIALIZED VIEW totals_of TO totals AS SELECT count() AS n FROM watched')
    const source = () => lineSource(plainRows(40), { pageRecords: 10 })
    await assert.rejects(
      load(job(source(), 'watched')),
      /ALTER TABLE .*watched.* MODIFY SETTING non_replicated_deduplication_window/,
    )
    await sql('ALTER TABLE watched MODIFY SETTING non_replicated_deduplication_window = 1000')
    const options = { destination: clickhouseDestination as never, checkpointRecords: 10 }
    const doomed = job(source(), 'watched')
    assert.ok(await bench.crash(doomed, 'clickhouse.publish.inserted', 2, options))
    assert.deepEqual(await sql('SELECT count() FROM watched'), ['20'])
    await bench.run(bench.again(doomed), options)
    assert.deepEqual(await sql('SELECT count(), uniqExact(id) FROM watched'), ['40\t40'])
    assert.deepEqual(await sql('SELECT sum(n) FROM totals'), ['40'])
  })

  it('sends a large batch in chunks, and the same chunks again', async () => {
    const rows = Array.from({ length: 60 }, (_, at) => `{"id":${at},"text":"${String(at % 10).repeat(400_000)}"}`)
    const options = { destination: clickhouseDestination as never, checkpointRecords: 1000 }
    const doomed = job(lineSource(rows, { pageRecords: 7 }), 'large')
    assert.ok(await bench.crash(doomed, 'clickhouse.staging', 3, options))
    await bench.run(bench.again(doomed), options)
    assert.deepEqual(await sql('SELECT count(), uniqExact(id), sum(length(text)) FROM large'), ['60\t60\t24000000'])
  })

  it('leaves no table behind, and an older run does not publish any more', async () => {
    const options = { destination: clickhouseDestination as never, checkpointRecords: 10 }
    const older = job(lineSource(plainRows(30), { pageRecords: 5 }), 'swept')
    assert.ok(await bench.crash(older, 'publish:before', 1, options))
    const own = () =>
      server.sql(`SELECT name FROM system.tables WHERE database = '${database}' AND startsWith(name, '_sluice_s_')`)
    const staged = (await own()).length
    await bench.run({ ...job(lineSource(plainRows(3)), 'swept'), pipeline_id: older.pipeline_id }, options)
    assert.equal((await own()).length, staged - 1)
    await assert.rejects(bench.run(bench.again(older), options), /fenced/)
    assert.deepEqual(await sql('SELECT count() FROM swept'), ['3'])
  })

  it('survives a server that is killed in the middle', async () => {
    const own = await startServer()
    try {
      const { host, port, user, password } = own
      const place = { host, port, user, password, database: await own.createDatabase(), secure: false, table: 'rows' }
      const doomed = bench.job({
        source: lineSource(plainRows(40), { pageRecords: 10 }),
        destination: { name: 'clickhouse', config: place },
        sync: { write: 'append' },
      })
      let staged = 0
      const fault = async (point: string): Promise<void> => {
        if (point === 'clickhouse.staging' && ++staged === 3) await own.kill()
      }
      const options = { destination: clickhouseDestination as never, checkpointRecords: 10 }
      await assert.rejects(bench.run(doomed, { ...options, fault }), (error: Error & { transient?: boolean }) => {
        assert.match(error.message, /cannot be reached/)
        assert.ok(error.transient)
        return true
      })
      await own.restart()
      await bench.run(bench.again(doomed), options)
      assert.deepEqual(await own.sql('SELECT count(), uniqExact(id) FROM rows', { database: place.database }), [
        '40\t40',
      ])
    } finally {
      await own.stop()
    }
  })
})
