/** SQL over an output: exact in every format, and unable to see or do anything else. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { BlobStore } from '../../src/blobs/blobs.ts'
import { createLocalBlobs } from '../../src/blobs/local.ts'
import { openPartWriter } from '../../src/blobs/part-writer.ts'
import { type Column, ConnectorError } from '../../src/connectors/contract.ts'
import type { QueriedOutput } from '../../src/engine/query/output-table.ts'
import { queryOutput } from '../../src/engine/query/query-output.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-blobs-'))
const blobs: BlobStore = createLocalBlobs(folder)
after(() => rmSync(folder, { recursive: true, force: true }))

let stored = 0

/** An output in parts that are stored compressed. */
async function store(
  kind: 'jsonl' | 'csv' | 'tsv' | 'jsonl.gz' | 'csv.gz',
  pieces: readonly (string | Buffer)[],
  more: Partial<QueriedOutput> = {},
): Promise<QueriedOutput> {
  const parts = []
  for (const piece of pieces) {
    const writer = openPartWriter(blobs, `o/runs/r/${++stored}.part`, 'zstd')
    await writer.write(Buffer.from(piece))
    parts.push(await writer.finish())
  }
  const [format, gzip] = kind.split('.')
  return {
    format: format as QueriedOutput['format'],
    gzip: gzip !== undefined,
    parts,
    columns: null,
    kept: null,
    ...more,
  }
}

async function run(output: QueriedOutput, sql: string | null, format: 'json' | 'csv' = 'json', limit = 1000) {
  const signal = AbortSignal.timeout(60_000)
  const { body, ...rest } = await queryOutput({ output, blobs, sql, format, limit, memoryMb: 100, signal })
  return { ...rest, text: body.toString(), types: rest.columns.map(({ name, type }) => `${name} ${type}`) }
}

const column = (name: string, type: Column['type']): Column => ({ name, type })

const EXACT = [
  '{"id":9007199254740993,"amount":12345678901234567.89,"huge":123456789012345678901234567890,"name":"a\\u00e9\\n\\"x\\"","nested":{"n":1.10,"list":[1,2.50]},"day":"2024-02-29","at":"2024-01-01T00:00:00.5Z","ok":true}\n',
  '{"id":1,"amount":0.10,"huge":1,"name":"","nested":[1],"day":null,"at":"2024-01-02T00:00:00+00:00","ok":false,"late":"x"}\n',
]

describe('a query over JSON lines', () => {
  it('has the types of the platform and keeps every digit', async () => {
    const answer = await run(await store('jsonl', EXACT), 'SELECT * FROM output ORDER BY id DESC')
    assert.deepEqual(answer.types, [
      'id int64',
      'amount decimal(38,2)',
      'huge decimal(38,0)',
      'name text',
      'nested text',
      'day date',
      'at timestamptz',
      'ok boolean',
      'late text',
    ])
    assert.equal(answer.truncated, false)
    const [first, second] = answer.text.split(',\n')
    assert.equal(
      first,
      '[[9007199254740993,12345678901234567.89,123456789012345678901234567890,"aé\\n\\"x\\"","{\\"n\\":1.10,\\"list\\":[1,2.50]}","2024-02-29","2024-01-01T00:00:00.5+00:00",true,null]',
    )
    assert.match(second!, /^\[1,0\.10,1,"","\[1\]",null,/)
  })

  it('answers as CSV, and aggregates', async () => {
    const sql = 'SELECT name, sum(amount) AS total, NULL AS none FROM output GROUP BY 1 ORDER BY 1'
    const { text } = await run(await store('jsonl', EXACT), sql, 'csv')
    assert.equal(text, 'name,total,none\n"",0.10,\n"aé\n""x""",12345678901234567.89,\n')
  })

  it('says when there are more rows than were asked for; a sample reads only the beginning', async () => {
    const lines = Array.from({ length: 5000 }, (_, id) => `{"id":${id}}\n`).join('')
    const output = await store('jsonl', [lines, 'not read by a sample'])
    assert.deepEqual(await run(output, null, 'json', 2), {
      columns: [{ name: 'id', type: 'int64' }],
      types: ['id int64'],
      rows: 2,
      truncated: true,
      text: '[[0],\n[1]]',
    })
    const whole = await store('jsonl', [lines])
    const { text, truncated } = await run(whole, 'SELECT id FROM output ORDER BY id', 'json', 2)
    assert.deepEqual([text, truncated], ['[[0],\n[1]]', true])
    assert.equal((await run(whole, 'SELECT count(*), max(id) FROM output')).text, '[[5000,4999]]')
    assert.equal((await run(await store('jsonl', ['{"id":1}\n']), null, 'json', 1)).truncated, false)
  })

  it('reads names that differ only in case, and an empty one', async () => {
    const output = await store('jsonl', ['{"id":1,"ID":2,"":3}\n'])
    assert.deepEqual((await run(output, null)).types, ['id int64', 'ID_2 int64', '_ int64'])
  })

  it('writes every type that SQL can make', async () => {
    const { text, types } = await run(
      await store('jsonl', ['{"id":1}\n']),
      `SELECT 1.1::FLOAT, 'nan'::DOUBLE, -'inf'::DOUBLE, 170141183460469231731687303715884105727::HUGEINT, '\\xAA'::BLOB,
        [1, NULL], {'a': 1.10, 'b': ['x']}, MAP {'k': 1}, TIME '12:00:01.5', INTERVAL '1 month', '{"n":1.10}'::JSON, NULL,
        UUID '00000000-0000-0000-0000-000000000001', TIMESTAMP 'infinity', [{'j': '[1.0]'::JSON}], 'x'::ENUM('x'), 5::UBIGINT`,
    )
    assert.equal(
      text,
      '[[1.1,"NaN","-Infinity",170141183460469231731687303715884105727,"\\\\xaa",[1,null],{"a":1.10,"b":["x"]},{"k":1},"12:00:01.5","1 month",{"n":1.10},null,"00000000-0000-0000-0000-000000000001","infinity",[{"j":[1.0]}],"x",5]]',
    )
    assert.deepEqual(
      types.map((each) => each.split(' ').at(-1)),
      'float32 float64 float64 decimal bytes int32[] json json time interval json int32 uuid timestamp json text decimal(20,0)'.split(
        ' ',
      ),
    )
  })
})

describe('an output that is too large to query', () => {
  it('is refused in words, however small it is compressed, and its first rows can still be seen', async () => {
    const line = `${JSON.stringify({ a: 'x'.repeat(100) })}\n`
    const csv = `a,b\n${`${'x'.repeat(100)},1\n`.repeat(2000)}`
    const query = { blobs, format: 'json' as const, limit: 2, memoryMb: 100, maxBytes: 100 * 1024 }
    const signal = AbortSignal.timeout(60_000)
    for (const output of [await store('jsonl.gz', [gzipSync(line.repeat(2000))]), await store('csv', [csv])]) {
      await assert.rejects(
        queryOutput({ ...query, output, sql: 'SELECT count(*) FROM output', signal }),
        (error: unknown) =>
          error instanceof ConnectorError &&
          error.kind === 'limit' &&
          /^The output has more than 100 KB/.test(error.message),
      )
      assert.equal((await queryOutput({ ...query, output, sql: null, signal })).rows, 2)
    }
  })
})

describe('a query over the other formats', () => {
  it('reads typed rows with their declared types, escapes and nulls', async () => {
    const columns = [
      column('id', 'int64'),
      column('price', 'decimal'),
      column('text', 'text'),
      column('raw', 'bytes'),
      column('doc', 'json'),
      column('at', 'timestamptz'),
      column('day', 'date'),
      column('ok', 'boolean'),
    ]
    const rows = [
      '9007199254740993\t0.10\ta\\tb\\\\n\\nc\t\\\\x00ff\t{"n": 1.10}\t2024-01-01 00:00:00+00\tinfinity\tt\n',
      '\\N\t123456789.123\t\t\\N\t\\N\t\\N\t2024-01-01\t\\N\n',
    ]
    const output = await store('tsv', rows, { columns })
    const expected =
      '[[9007199254740993,0.100,"a\\tb\\\\n\\nc","\\\\x00ff",{"n": 1.10},"2024-01-01T00:00:00+00:00","infinity",true],\n' +
      '[null,123456789.123,"",null,null,null,"2024-01-01",null]]'
    const answer = await run(output, 'SELECT * FROM output')
    assert.equal(answer.text, expected)
    assert.deepEqual(
      answer.columns.map(({ type }) => type),
      ['int64', 'decimal(18,3)', 'text', 'bytes', 'json', 'timestamptz', 'text', 'boolean'],
    )
    assert.equal((await run(output, null)).text, expected)
  })

  it('reads typed rows that have lists, or a single column', async () => {
    const lists = await store('tsv', ['1\t{1,NULL,2}\n'], {
      columns: [column('id', 'int32'), column('list', 'int32[]')],
    })
    assert.equal((await run(lists, 'SELECT * FROM output')).text, '[[1,[1,null,2]]]')
    const single = await store('tsv', ['\n\\N\nx\n'], { columns: [column('only', 'text')] })
    assert.equal((await run(single, 'SELECT * FROM output')).text, '[[""],\n[null],\n["x"]]')
  })

  it('reads CSV with the types that all of its rows have', async () => {
    const csv = 'id,code,price,note,day\n1,007,0.10,"a\nb",2024-01-01\n9007199254740993,12,5,"",\n'
    for (const kind of ['csv', 'csv.gz'] as const) {
      const output = await store(kind, [kind === 'csv' ? csv : gzipSync(csv)])
      const { text, types } = await run(output, 'SELECT * FROM output')
      assert.equal(text, '[[1,"007",0.10,"a\\nb","2024-01-01"],\n[9007199254740993,"12",5.00,"",null]]')
      assert.deepEqual(types, ['id int64', 'code text', 'price decimal(18,2)', 'note text', 'day date'])
      assert.equal((await run(output, null, 'json', 1)).text, '[[1,"007",0.10,"a\\nb","2024-01-01"]]')
    }
  })

  it('reads gzip of several members', async () => {
    const output = await store('jsonl.gz', [gzipSync('{"id":1}\n'), gzipSync('{"id":2}\n')])
    assert.equal((await run(output, 'SELECT sum(id) AS s FROM output')).text, '[[3]]')
  })

  it('has the columns that are known where there are no records', async () => {
    assert.deepEqual((await run(await store('jsonl', []), null)).columns, [])
    assert.equal((await run(await store('jsonl', []), 'SELECT count(*) FROM output')).text, '[[0]]')
    const columns = [column('id', 'int64'), column('at', 'timestamptz')]
    for (const output of [await store('tsv', [], { columns }), await store('jsonl', [], { kept: columns })])
      assert.deepEqual((await run(output, null)).types, ['id int64', 'at timestamptz'])
  })
})

describe('statements', () => {
  const allowed = [
    'DESCRIBE output',
    'SUMMARIZE output',
    'EXPLAIN SELECT * FROM output',
    'explain analyze select id from output',
    'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n',
    '-- a comment\nSELECT /* another */ id FROM output;',
    'FROM output',
    'TABLE output',
    'PIVOT output ON id IN (1, 2) USING count(*)',
    'SELECT * FROM (VALUES (1), (2)) AS v(x) JOIN output ON id = x',
    'SELECT output.* FROM main.output',
    "SELECT * FROM json_each('[1]'), range(3), unnest([1, 2])",
    'WITH a AS (FROM output), b AS (FROM a) SELECT * FROM (FROM b)',
  ]
  it('may describe, summarize and explain', async () => {
    const output = await store('jsonl', ['{"id":1}\n'])
    for (const sql of allowed) {
      const { text } = await run(output, sql)
      assert.doesNotMatch(text, new RegExp(tmpdir()), sql)
    }
  })

  const refused = [
    "COPY output TO '/stolen/rows.csv'",
    "EXPLAIN ANALYZE COPY output TO 'stolen.csv'",
    'EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1',
    'EXPLAIN ANALYZE EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1',
    "ATTACH '/etc/passwd' AS x",
    'INSTALL httpfs',
    'LOAD httpfs',
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_text('output.data')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'output.data'",
    "SELECT * FROM read_csv('http://127.0.0.1/x')",
    "SELECT * FROM glob('*')",
    "SELECT getenv('PATH')",
    "SELECT current_setting('temp_directory')",
    "EXPLAIN SELECT current_setting('temp_directory')",
    'SELECT * FROM duckdb_settings()',
    'SELECT * FROM pg_settings',
    'SELECT * FROM pg_catalog.pg_settings',
    'SELECT * FROM system.main.duckdb_views',
    'WITH pg_settings AS (SELECT * FROM pg_settings) SELECT * FROM pg_settings',
    'WITH a AS (FROM pg_settings), pg_settings AS (SELECT 1) FROM a',
    'WITH RECURSIVE pg_settings AS (FROM pg_settings UNION ALL FROM pg_settings) FROM pg_settings',
    'SELECT * FROM pg_settings, (WITH pg_settings AS (SELECT 1) FROM pg_settings)',
    'SELECT (SELECT max(value) FROM duckdb_settings())',
    "SELECT * FROM query('SELECT * FROM duckdb_settings()')",
    "SELECT * FROM query_table('duckdb_settings')",
    'SELECT pg_get_viewdef(1)',
    'PRAGMA database_list',
    'PRAGMA version',
    'SET threads = 8',
    'RESET threads',
    'CALL pragma_version()',
    'CREATE TABLE t (a INT)',
    'CREATE MACRO f(x) AS x',
    'INSERT INTO output VALUES (1)',
    'DELETE FROM output',
    "EXPORT DATABASE '/tmp/x'",
    'SELECT 1; SELECT 2',
    'SELECT 1; DROP VIEW output',
    'CHECKPOINT',
    'BEGIN',
    ';',
    '-- nothing',
    'SELECT $1',
    'nonsense',
    'SELECT missing FROM output',
    `SELECT ${'('.repeat(20_000)}1${')'.repeat(20_000)}`,
  ]
  it('that do anything else are refused in words, without a path of the server', async () => {
    const output = await store('jsonl', ['{"id":1}\n'])
    for (const sql of refused) {
      const error = await run(output, sql).then(
        () => null,
        (reason: unknown) => reason,
      )
      assert.ok(error instanceof ConnectorError, `${sql.slice(0, 100)}: ${error}`)
      assert.equal(error.kind, 'config')
      for (const own of [tmpdir(), homedir(), import.meta.dirname].filter((path) => path.length > 1))
        assert.ok(!error.message.includes(own), `${sql.slice(0, 100)}: ${error.message}`)
      assert.doesNotMatch(error.message, /sluice-|query-|\.ts:/, sql.slice(0, 100))
    }
    await assert.rejects(run(output, 'SELECT missing FROM output'), /"missing" not found/)
    await assert.rejects(run(output, 'SELECT id\nFROM output WHERE'), /Parser Error: .*line 2/)
  })

  it('stop when they are asked to', async () => {
    const output = await store('jsonl', ['{"id":1}\n'])
    const signal = AbortSignal.timeout(500)
    const sql = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n'
    await assert.rejects(queryOutput({ output, blobs, sql, format: 'json', limit: 1, memoryMb: 100, signal }), {
      name: 'TimeoutError',
    })
  })
})
