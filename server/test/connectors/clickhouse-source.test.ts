import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { clickhouseSource } from '../../src/connectors/clickhouse/source/source.ts'
import { ConnectorError, type Encoding, type Sync } from '../../src/connectors/contract.ts'
import type { Json } from '../../src/json/json.ts'
import { type ChdbServer, findAbsence, startChdbServer, stopChdbServer } from '../harness/chdb-server.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { sourceContext } from '../harness/source-context.ts'

const absence = await findAbsence()
if (absence !== null) console.log(`the clickhouse source is not tested: ${absence}`)

const everything = `
  i8 Int8, u8 UInt8, u16 UInt16, u32 UInt32, u64 UInt64, i128 Int128, u256 UInt256, d Decimal(76, 38), f Float32, g Float64,
  flag Bool, day Date, far Date32, at DateTime('Europe/Berlin'), fine DateTime64(6, 'Asia/Tokyo'), nano DateTime64(9, 'UTC'),
  e Enum8('it\\'s' = 1, 'b)' = 2), id UUID, four IPv4, six IPv6, low LowCardinality(Nullable(String)), fixed FixedString(4),
  list Array(UInt64), pairs Map(String, Int8), both Tuple(a Int64, b Nullable(String)), n Nested(x Int8, y String), j JSON, s String`

const types = {
  i8: 'int16',
  u8: 'int16',
  u16: 'int32',
  u32: 'int64',
  u64: 'decimal(20,0)',
  i128: 'decimal(39,0)',
  u256: 'decimal(78,0)',
  d: 'decimal(76,38)',
  f: 'float32',
  g: 'float64',
  flag: 'boolean',
  day: 'date',
  far: 'date',
  at: 'timestamptz',
  fine: 'timestamptz',
  nano: 'text',
  e: 'text',
  id: 'uuid',
  four: 'text',
  six: 'text',
  low: 'text',
  fixed: 'text',
  list: 'json',
  pairs: 'json',
  both: 'json',
  'n.x': 'json',
  'n.y': 'json',
  j: 'json',
  s: 'text',
}

describe('the clickhouse source', { skip: absence !== null }, () => {
  let server: ChdbServer
  let bench: RunBench
  let config: Record<string, unknown>
  let database: string
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
  const context = (extra: Record<string, unknown> = {}) =>
    sourceContext(bench, clickhouseSource, { config: { ...config, ...extra } })
  const sql = (text: string) => server.sql(text, { database })

  const whole: Sync = {
    mode: 'full_refresh',
    cursor_field: null,
    write: 'append',
    primary_key: [],
    schema_change: 'evolve',
    lookback_seconds: 0,
    allow_empty: false,
  }
  interface Wanted {
    sync?: Partial<Sync>
    encoding?: Encoding
    state?: Json
    resume?: Json
    extra?: Record<string, unknown>
  }
  async function read(
    stream: string,
    { sync = {}, encoding = 'tsv', state = null, resume = null, extra }: Wanted = {},
  ) {
    const parts = { stream, encoding, sync: { ...whole, ...sync }, columns: {}, state, resume }
    const { pages, columns } = await clickhouseSource.read({ ...context(extra), ...parts })
    const lines: string[] = []
    let cursor: Json = null
    for await (const page of pages) {
      const text = page.bytes.toString()
      assert.equal(text.split('\n').length - 1, page.records)
      lines.push(...text.split('\n').slice(0, -1))
      cursor = page.cursor ?? null
    }
    return { lines, columns, cursor }
  }

  it('gives every type without loss, and declares what it gives', async () => {
    await sql(`CREATE TABLE everything (${everything}) ENGINE = MergeTree ORDER BY id`)
    const big = 2n ** 256n - 1n
    await sql(`INSERT INTO everything VALUES (-128, 255, 65535, 4294967295, 18446744073709551615, -170141183460469231731687303715884105728,
      ${big}, -12345678901234567890123456789012345678.12345678901234567890123456789012345678, 0.1, 1e300, true, '2149-06-06', '1900-01-01',
      '2024-07-01 12:00:00', '2024-07-01 09:00:00.123456', '2024-07-01 00:00:00.123456789', 'it\\'s', '61f0c404-5cb3-11e7-907b-a6006ad3dba0',
      '127.0.0.1', '::1', 'x', 'EUR', [18446744073709551615], {'k': 1}, (9007199254740993, NULL), [1, 2], ['a', 'b'], '{"a": 12345678901}',
      'tab\\tnew\\nback\\\\slash quote\\' nul\\0 vertical\\x0b return\\r')`)
    await sql(`INSERT INTO everything (id, f, g, low) VALUES ('71f0c404-5cb3-11e7-907b-a6006ad3dba0', nan, -inf, NULL)`)
    const { lines, columns } = await read('everything')
    assert.deepEqual(Object.fromEntries(columns!.map(({ name, type }) => [name, type])), types)
    const [first, second] = lines.sort().map((line) => line.split('\t'))
    assert.deepEqual(first, [
      ...['-128', '255', '65535', '4294967295', '18446744073709551615', '-170141183460469231731687303715884105728'],
      ...[
        String(big),
        '-12345678901234567890123456789012345678.12345678901234567890123456789012345678',
        '0.1',
        '1e300',
      ],
      ...['t', '2149-06-06', '1900-01-01', '2024-07-01 10:00:00+00', '2024-07-01 00:00:00.123456+00'],
      ...[
        '2024-07-01T00:00:00.123456789Z',
        "it's",
        '61f0c404-5cb3-11e7-907b-a6006ad3dba0',
        '127.0.0.1',
        '::1',
        'x',
        'EUR',
      ],
      ...[
        '[18446744073709551615]',
        '{"k":1}',
        '{"a":9007199254740993,"b":null}',
        '[1,2]',
        '["a","b"]',
        '{"a":12345678901}',
      ],
      "tab\\tnew\\nback\\\\slash quote' nul\0 vertical\\v return\\r",
    ])
    assert.deepEqual([second![8], second![9], second![20]], ['NaN', '-Infinity', '\\N'])
    const json = (await read('everything', { encoding: 'ndjson' })).lines.sort()
    assert.match(json[0]!, /"u64":18446744073709551615,"i128":-170141183460469231731687303715884105728,/)
    assert.equal(JSON.parse(json[0]!).s, "tab\tnew\nback\\slash quote' nul\0 vertical\v return\r")
    const [described] = await clickhouseSource.describe(context(), ['everything'])
    assert.deepEqual([described!.primary_key, described!.estimated_rows], [['id'], 2])
    assert.deepEqual(described!.cursor_fields, ['at', 'fine', 'day', 'far'])
  })

  it('reads incrementally: rows that share the last value are read once, those that come later too', async () => {
    await sql(
      'CREATE TABLE ticks (id UInt32, at Nullable(DateTime64(3)), note String) ENGINE = MergeTree ORDER BY tuple()',
    )
    await sql(`INSERT INTO ticks VALUES (1, '2024-01-01 00:00:00.001', 'a'), (2, '2024-01-01 00:00:00.002', 'b'), (3, '2024-01-01 00:00:00.002', 'c'),
      (4, NULL, 'none')`)
    const ids = ({ lines }: { lines: string[] }) => lines.map((line) => Number(line.split('\t')[0]))
    for (const primary_key of [[], ['id']]) {
      const sync = { mode: 'incremental', cursor_field: 'at', primary_key } as const
      const first = await read('ticks', { sync })
      assert.deepEqual(ids(first).sort(), [1, 2, 3, 4])
      assert.equal(ids(first)[0], 4)
      const again = await read('ticks', { sync, state: first.cursor })
      assert.deepEqual(again.lines, [])
      await sql(
        `INSERT INTO ticks VALUES (5, '2024-01-01 00:00:00.002', 'same value'), (6, '2024-01-01 00:00:00.003', 'later')`,
      )
      assert.deepEqual(ids(await read('ticks', { sync, state: first.cursor })), [5, 6])
      await sql('DELETE FROM ticks WHERE id > 4')
    }
    const set = await read('ticks', {
      sync: { mode: 'incremental', cursor_field: 'at' },
      state: { cursor: '2024-01-01T00:00:00.002Z' },
    })
    assert.deepEqual(ids(set).sort(), [2, 3])
  })

  it('goes on inside of a value that more rows share than can be listed', async () => {
    await sql('CREATE TABLE crowd (id UInt32, day Date, note String) ENGINE = MergeTree ORDER BY tuple()')
    await sql(`INSERT INTO crowd SELECT number, '2024-01-01', repeat('x', 100) FROM numbers(20000)`)
    for (const primary_key of [[], ['id']]) {
      const sync = { mode: 'incremental' as const, cursor_field: 'day', primary_key }
      const parts = { stream: 'crowd', encoding: 'tsv' as const, sync: { ...whole, ...sync }, columns: {}, state: null }
      const seen: string[] = []
      let resume: Json = null
      for (let rounds = 0; rounds < 30; rounds += 1) {
        const { pages } = await clickhouseSource.read({ ...context(), ...parts, resume })
        let got = 0
        for await (const page of pages) {
          seen.push(...page.bytes.toString().split('\n').slice(0, -1))
          resume = page.cursor!
          got += 1
          break
        }
        if (got === 0) break
      }
      assert.equal(seen.length, 20000)
      assert.equal(new Set(seen).size, 20000)
    }
  })

  it('reads rows as they are after merging, unless told otherwise', async () => {
    await sql('CREATE TABLE merged (id UInt8, v String, n UInt8) ENGINE = ReplacingMergeTree(n) ORDER BY id')
    await sql(`INSERT INTO merged VALUES (1, 'old', 1)`)
    await sql(`INSERT INTO merged VALUES (1, 'new', 2)`)
    assert.deepEqual((await read('merged')).lines, ['1\tnew\t2'])
    assert.equal((await read('merged', { extra: { final: false } })).lines.length, 2)
  })

  it('reads queries, and never writes', async () => {
    await sql('CREATE TABLE numbers_seen (n UInt8) ENGINE = MergeTree ORDER BY n')
    const queries = {
      sums: 'SELECT sum(number) AS total, \'a`b\' AS "odd `name" FROM numbers(10) -- all\n;',
      bad: 'SELEC 1',
    }
    const { lines, columns } = await read('sums', { extra: { queries } })
    assert.deepEqual(lines, ['45\ta`b'])
    assert.equal(columns![1]!.name, 'odd `name')
    await assert.rejects(read('bad', { extra: { queries } }), /query bad cannot be run.*one SELECT/s)
    const writing = { q: "SELECT * FROM url('http://127.0.0.1:1/', CSV, 'a Int8') INTO OUTFILE 'x'" }
    await assert.rejects(read('q', { extra: { queries: writing } }), ConnectorError)
    const listed = await clickhouseSource.listStreams(context({ queries, databases: [database, 'other'] }))
    assert.ok(listed.includes('sums') && listed.includes('numbers_seen'), listed.join(', '))
  })

  it('says which column is not text', async () => {
    await sql('CREATE TABLE blobs (id UInt8, raw String) ENGINE = MergeTree ORDER BY id')
    await sql(`INSERT INTO blobs VALUES (1, '\\xff\\x00\\x09')`)
    await assert.rejects(read('blobs'), /Values of raw are not text.*binary_columns/)
    assert.deepEqual((await read('blobs', { extra: { binary_columns: ['raw'] } })).lines, ['1\t\\\\xff0009'])
  })

  it('explains what is wrong', async () => {
    const fails = (acting: Promise<unknown>, kind: string, message: RegExp) =>
      assert.rejects(acting, (error: unknown) => {
        assert.ok(error instanceof ConnectorError, String(error))
        assert.match(error.message, message)
        assert.equal(error.kind, kind, error.message)
        return true
      })
    const check = (extra: Record<string, unknown>, stream: string | null = null) =>
      clickhouseSource.check({ ...context(extra), stream })
    await fails(check({ database: 'nope' }), 'config', /Check the name of the database/)
    await fails(check({}, 'nope'), 'config', /no table, view or query nope/)
    await fails(check({}, 'a.b.c'), 'config', /3 parts/)
    await fails(check({ user: 'nobody' }), 'auth', /`user` and `password`/)
    await fails(read('everything', { sync: { mode: 'incremental', cursor_field: 'list' } }), 'config', /have an order/)
    await fails(
      read('everything', { sync: { mode: 'incremental', cursor_field: 'u64' }, state: { cursor: "1' OR 1" } }),
      'config',
      /not a number/,
    )
  })
})
