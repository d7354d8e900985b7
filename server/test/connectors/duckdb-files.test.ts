/** DuckDB files: the values of every type, files that are not what they should be, and tables that change. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Column, ConnectorError, type Source, type Sync } from '../../src/connectors/contract.ts'
import { duckdbSource } from '../../src/connectors/duckdb/source/source.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import { queryDuckdb } from '../harness/duckdb-files.ts'
import { type FileServer, startFileServer } from '../harness/file-server.ts'
import { lineSource } from '../harness/line-source.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { sourceContext } from '../harness/source-context.ts'

let bench: RunBench
let server: FileServer
let folder: string
before(async () => {
  bench = await openRunBench()
  server = await startFileServer()
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-test-duckdb-'))
})
after(async () => {
  await server.close()
  await bench.close()
  await rm(folder, { recursive: true })
})

let made = 0

async function makeFile(sql: string): Promise<Buffer> {
  const file = path.join(folder, `${++made}.duckdb`)
  await queryDuckdb(file, sql)
  return readFile(file)
}

const serve = async (sql: string): Promise<string> => server.put(`${made + 1}.duckdb`, await makeFile(sql))

async function read(config: Record<string, unknown>, stream = 't', sync: Partial<Sync> = {}): Promise<string[]> {
  const job = bench.job({ source: { name: 'duckdb', stream, config }, destination: { name: 'file' }, sync })
  return (await bench.readOutput(await bench.run(job))).toString().split('\n').slice(0, -1)
}

function fails(work: Promise<unknown>, kind: string, message: RegExp): Promise<void> {
  return assert.rejects(work, (error: unknown) => {
    assert.ok(error instanceof ConnectorError, String(error))
    assert.equal(error.kind, kind, error.message)
    assert.match(error.message, message)
    assert.doesNotMatch(error.message, /sluice-/, 'no path of the machine')
    return true
  })
}

describe('source', () => {
  it('reads every type without loss', async () => {
    const uuid = '00000000-0000-4000-8000-000000000001'
    const values: [type: string, value: string, neutral: string, json: string][] = [
      ['UBIGINT', '18446744073709551615', 'decimal(20,0)', '18446744073709551615'],
      ['HUGEINT', '170141183460469231731687303715884105727', 'decimal', '170141183460469231731687303715884105727'],
      ['DECIMAL(38,10)', '1.5', 'decimal(38,10)', '1.5000000000'],
      ['UUID', `'${uuid}'`, 'uuid', `"${uuid}"`],
      ['INTERVAL', "'1 year 2 months 3 days 04:05:06.5'", 'interval', '"1 year 2 mons 3 days 04:05:06.5"'],
      ['TIMESTAMP', "'2024-01-31 12:00:00.5'", 'timestamp', '"2024-01-31T12:00:00.5"'],
      ['TIMESTAMP_NS', "'2024-01-31 12:00:00.123456789'", 'text', '"2024-01-31 12:00:00.123456789"'],
      ['TIMESTAMPTZ', "'2024-01-31 12:00:00+02'", 'timestamptz', '"2024-01-31T10:00:00Z"'],
      ['DATE', "'0044-03-15 (BC)'", 'date', '"0044-03-15 BC"'],
      ['TIME', "'12:00:00'", 'time', '"12:00:00"'],
      ['INTEGER[]', '[1, NULL]', 'int32[]', '[1,null]'],
      ['DECIMAL(30,20)[]', '[0.12345678901234567890]', 'json', '[0.12345678901234567890]'],
      ['STRUCT(a INTEGER, b VARCHAR)', "{a: 1, b: 'x\"y'}", 'json', '{"a":1,"b":"x\\"y"}'],
      ['STRUCT(f DOUBLE)', "{f: 'nan'}", 'json', `"{'f': nan}"`],
      ['MAP(INTEGER, VARCHAR)', "MAP {1: 'x'}", 'json', '{"1":"x"}'],
      ["ENUM('b', 'a')", "'a'", 'text', '"a"'],
      ['BLOB', "'\\x00\\xFF'", 'bytes', '"\\\\x00ff"'],
      ['BIT', "'0101'", 'text', '"0101"'],
      ['FLOAT', "'nan'", 'float32', '"NaN"'],
      ['DOUBLE', "'-inf'", 'float64', '"-Infinity"'],
      ['JSON', `'{"a":\n1.50}'`, 'json', '{"a": 1.50}'],
      ['VARCHAR', "'a' || chr(0) || 'b'", 'text', '"a\\u0000b"'],
      ['BOOLEAN', 'NULL', 'boolean', 'null'],
    ]
    const url = await serve(`CREATE TABLE t (${values.map(([type], at) => `c${at} ${type}`).join(', ')});
      INSERT INTO t VALUES (${values.map(([, value]) => value).join(', ')})`)
    const [row] = await read({ url })
    assert.equal(row, `{${values.map(([, , , json], at) => `"c${at}":${json}`).join(',')}}`)
    const context = sourceContext(bench, duckdbSource, { config: { url } })
    const [description] = await duckdbSource.describe(context, ['t'])
    assert.deepEqual(
      description!.columns!.map(({ type }) => type),
      values.map(([, , neutral]) => neutral),
    )
  })

  it('lists tables, views and queries, and describes keys, cursors and rows', async () => {
    const url = await serve(`CREATE SCHEMA s; CREATE TABLE s."a.b" (x INTEGER);
      CREATE TABLE orders (id BIGINT PRIMARY KEY, "at" TIMESTAMP); INSERT INTO orders VALUES (1, now()), (2, now());
      CREATE VIEW late AS SELECT * FROM orders`)
    const config = { url, queries: { doubled: 'SELECT id * 2 AS twice FROM orders -- all;\n;' } }
    const context = sourceContext(bench, duckdbSource, { config })
    assert.deepEqual(await duckdbSource.listStreams(context), ['doubled', 'late', 'orders', 's."a.b"'])
    const [orders, doubled] = await duckdbSource.describe(context, ['orders', 'doubled', 's."a.b"'])
    assert.deepEqual(
      [orders!.primary_key, orders!.cursor_fields, orders!.estimated_rows, doubled!.columns![0]!.name],
      [['id'], ['at', 'id'], 2, 'twice'],
    )
    assert.deepEqual(await read(config, 'doubled'), ['{"twice":2}', '{"twice":4}'])
  })

  it('reads rows with the last value once each, and looks back from a time', async () => {
    const table = 'CREATE TABLE t (id BIGINT, "at" TIMESTAMPTZ);'
    const rows = "INSERT INTO t VALUES (1, '2024-01-01 10:00:00+00'), (2, '2024-01-01 12:00:00+00'), (3, NULL);"
    const url = await serve(table + rows)
    const start = async (sync: Partial<Sync>): Promise<[Job, Outcome]> => {
      const source = { name: 'duckdb', stream: 't', config: { url } }
      const job = bench.job({
        source,
        destination: { name: 'file' },
        sync: { mode: 'incremental', cursor_field: 'at', ...sync },
      })
      return [job, await bench.run(job)]
    }
    const [first, outcome] = await start({ write: 'append' })
    const [second, other] = await start({ write: 'upsert', primary_key: ['id'], lookback_seconds: 3 * 3600 })
    server.put(
      new URL(url).pathname.slice(1),
      await makeFile(
        `${table}${rows}INSERT INTO t VALUES (0, '2024-01-01 12:00:00+00'), (4, '2024-01-01 09:00:00+00')`,
      ),
    )
    assert.equal(outcome.records_read, 3)
    const later = await bench.run(bench.next(first, outcome))
    assert.equal((await bench.readOutput(later)).toString(), '{"id":0,"at":"2024-01-01T12:00:00Z"}\n')
    assert.equal((await bench.run(bench.next(second, other))).records_read, 4)
  })

  it('reads more rows than are sorted at once in the order of the cursor, each once', async () => {
    const url =
      await serve(`CREATE TABLE t AS SELECT i AS id, CASE WHEN i % 50 = 0 THEN NULL ELSE (i * 7919) % 9000 END AS n
      FROM range(50000) r(i)`)
    const config = { url, queries: { q: 'SELECT * FROM t' } }
    for (const stream of ['t', 'q']) {
      const sync: Partial<Sync> = { mode: 'incremental', cursor_field: 'n', write: 'append', primary_key: ['id'] }
      const rows = (await read(config, stream, sync)).map(
        (line) => JSON.parse(line) as { id: number; n: number | null },
      )
      assert.equal(new Set(rows.map(({ id }) => id)).size, 50_000)
      assert.equal(rows.length, 50_000)
      const values = rows.map(({ n }) => n ?? -1)
      assert.ok(values.every((value, at) => at === 0 || value >= values[at - 1]!))
    }
  })

  it('runs a query only if it is one SELECT over the file', async () => {
    const url = await serve(`CREATE SCHEMA s; CREATE TABLE s.u AS SELECT 2 AS b; CREATE TABLE "T" AS SELECT 1 AS a;
      CREATE VIEW v AS SELECT a FROM "T"; CREATE MACRO both_of() AS TABLE SELECT a, b FROM "T", s.u`)
    const ends = 'SELECT 1 AS a) AS t; % SELECT 1 FROM (SELECT 1 AS a'
    for (const [sql, message] of [
      [ends.replace('%', "COPY (SELECT 1) TO (current_setting('temp_directory') || '/x.csv');"), /one SELECT/],
      [ends.replace('%', 'CREATE TABLE memory.main.m AS SELECT 1 AS x;'), /one SELECT/],
      ["SELECT 1 AS a; COPY (SELECT 1) TO (current_setting('temp_directory') || '/x.csv')", /one SELECT/],
      ["COPY (SELECT 1) TO (current_setting('temp_directory') || '/x.csv')", /one SELECT/],
      ["SELECT current_setting('temp_directory') AS d", /current_setting is not allowed/],
      ["SELECT * FROM glob('*')", /glob is not allowed/],
      ['SELECT * FROM duckdb_settings()', /duckdb_settings is not allowed/],
      ['SELECT * FROM information_schema.tables', /no table "tables"/],
      ["SELECT * FROM 'x.csv'", /no table "x.csv"/],
    ] as const)
      await fails(read({ url, queries: { q: sql } }, 'q'), 'config', message)
    const query = (sql: string) => read({ url, queries: { q: sql } }, 'q')
    assert.deepEqual(await query('WITH c AS (FROM t) SELECT c.a, u.b FROM c, file.s.u JOIN file.t ON true;'), [
      '{"a":1,"b":2}',
    ])
    assert.deepEqual(await query('FROM both_of()'), ['{"a":1,"b":2}'])
    assert.deepEqual(await query('SELECT a + range AS n FROM main.v, range(1) -- one; row'), ['{"n":1}'])
  })

  it('says what is wrong with a file or a query, and reaches nothing else', async () => {
    await fails(read({ url: server.put('page.html', '<html></html>') }), 'source', /no DuckDB database.*check the url/)
    const whole = await makeFile('CREATE TABLE t AS SELECT i, md5(i::VARCHAR) AS h FROM range(100000) r(i)')
    await fails(read({ url: server.put('torn', whole.subarray(0, 300_000)) }), 'source', /damaged/)
    await fails(read({ url: server.put('newer', asNewer(whole)) }), 'source', /newer version of DuckDB/)
    const url = server.put('whole', whole)
    await fails(read({ url }, 'u'), 'config', /no table, view or query u; it has t/)
    const query = (sql: string) => read({ url, queries: { q: sql } }, 'q')
    await fails(query('SELECT nothing FROM t'), 'config', /The query q cannot be run.*nothing.*one SELECT/)
    await fails(query('DROP TABLE t'), 'config', /The query q cannot be run/)
    for (const sql of [
      "SELECT * FROM read_text('/etc/passwd')",
      "SELECT * FROM read_csv('https://example.com/x.csv')",
      "SELECT 1) AS t; ATTACH '/tmp/x' AS y; SELECT * FROM (SELECT 1",
    ])
      await fails(query(sql), 'config', /The query q cannot be run/)
  })
})

/** The file as a later version would write it, with the checksum of its first block right. */
function asNewer(file: Buffer): Buffer {
  const copy = Buffer.from(file)
  copy.writeBigUInt64LE(9999n, 12)
  let sum = 5381n
  for (let at = 8; at < 4096; at += 8) sum ^= BigInt.asUintN(64, copy.readBigUInt64LE(at) * 0xbf58476d1ce4e5b9n)
  copy.writeBigUInt64LE(sum, 0)
  return copy
}

describe('destination', () => {
  const destination = { name: 'duckdb', config: { table: 't' } }

  function openPipeline() {
    let earlier: Job | null = null
    return async (rows: string[], sync: Partial<Sync> = {}, columns: Column[] | null = null) => {
      const plain = lineSource(rows)
      const source: Source = { ...plain, read: async (context) => ({ ...(await plain.read(context)), columns }) }
      const job = bench.job({ source, destination, sync: { write: 'append', ...sync } })
      if (earlier) Object.assign(job, { pipeline_id: earlier.pipeline_id })
      earlier = job
      const attempt = bench.start(job)
      const outcome = await attempt.done
      const file = path.join(folder, `${++made}.duckdb`)
      await writeFile(file, await bench.readOutput(outcome))
      const types = (await queryDuckdb(file, 'DESCRIBE t')).map(([name, type]) => [String(name), String(type)])
      const cells = types.map(([name]) => `CAST("${name}" AS VARCHAR)`)
      const found = await queryDuckdb(file, `SELECT ${cells.join(', ')} FROM t ORDER BY 1`)
      return { types: Object.fromEntries(types), rows: found, log: attempt.log.join('\n'), output: outcome.output! }
    }
  }

  it('stores every declared type as its documented form', async () => {
    const uuid = '00000000-0000-4000-8000-000000000001'
    const values: [type: Column['type'], json: string, sql: string, text: string | null][] = [
      ['boolean', 'true', 'BOOLEAN', 'true'],
      ['int16', '5', 'SMALLINT', '5'],
      ['int64', '9223372036854775807', 'BIGINT', '9223372036854775807'],
      ['float32', '"NaN"', 'FLOAT', 'nan'],
      ['decimal(10,2)', '9.90', 'DECIMAL(10,2)', '9.90'],
      ['decimal', '12345678901234567890.5', 'DECIMAL(38,18)', '12345678901234567890.500000000000000000'],
      ['bytes', '"\\\\x00ff"', 'BLOB', '\\x00\\xFF'],
      ['date', '"2024-01-31"', 'DATE', '2024-01-31'],
      ['time', '"12:00:00"', 'TIME', '12:00:00'],
      ['timestamp', '"2024-01-31T12:00:00.5"', 'TIMESTAMP', '2024-01-31 12:00:00.5'],
      ['interval', '"1 year 2 mons -1 days"', 'INTERVAL', '1 year 2 months -1 day'],
      ['uuid', `"${uuid}"`, 'UUID', uuid],
      ['int32[]', '[1,2]', 'JSON', '[1,2]'],
      ['json', '"text"', 'JSON', '"text"'],
      ['date', 'null', 'DATE', null],
    ]
    const row = `{${values.map(([, json], at) => `"c${at}":${json}`).join(',')}}`
    const { types, rows, output } = await openPipeline()(
      [row],
      {},
      values.map(([type], at) => ({ name: `c${at}`, type })),
    )
    assert.deepEqual(
      Object.values(types),
      values.map(([, , sql]) => sql),
    )
    assert.deepEqual(
      rows[0],
      values.map(([, , , text]) => text),
    )
    assert.deepEqual([output.extension, output.content_type], ['duckdb', 'application/vnd.duckdb'])
  })

  it('widens columns for later runs without changing a value, and leaves out what it may not widen', async () => {
    const run = openPipeline()
    await run(['{"id":1,"n":9007199254740993,"b":true,"d":"2024-01-31","j":5,"s":7,"z":2.5}'])
    const wide = await run([
      '{"id":2,"n":0.5,"b":"maybe","d":"2024-01-31T12:00:00","j":{"a":1},"s":"007","z":0.1234567890123456789012345678901234567890,"new":"x"}',
    ])
    assert.deepEqual(wide.types, {
      id: 'BIGINT',
      n: 'DECIMAL(38,1)',
      b: 'VARCHAR',
      d: 'TIMESTAMP',
      j: 'JSON',
      s: 'VARCHAR',
      z: 'VARCHAR',
      new: 'VARCHAR',
    })
    assert.deepEqual(wide.rows, [
      ['1', '9007199254740993.0', 'true', '2024-01-31 00:00:00', '5', '7', '2.5', null],
      ['2', '0.5', 'maybe', '2024-01-31 12:00:00', '{"a":1}', '007', '0.1234567890123456789012345678901234567890', 'x'],
    ])
    const discarded = await run(['{"id":"x","n":"y","more":1}'], { schema_change: 'discard' })
    assert.match(discarded.log, /warn 2 values do not fit/)
    await fails(run(['{"id":3,"n":1.25}'], { schema_change: 'fail' }), 'destination', /values of n no longer fit/)
  })

  it('merges by key, keeps columns that the records do not have, and refuses a key that cannot be', async () => {
    const run = openPipeline()
    await run(['{"id":1,"v":"one","w":1}', '{"id":2,"v":"two","w":2}'])
    const key = { write: 'upsert', primary_key: ['id'] } as Partial<Sync>
    const { rows } = await run(['{"id":2,"v":"older"}', '{"id":2,"v":"new"}', '{"id":3,"v":"three"}'], key)
    assert.deepEqual(rows, [
      ['1', 'one', '1'],
      ['2', 'new', '2'],
      ['3', 'three', null],
    ])
    await fails(run(['{"id":null,"v":"x"}'], key), 'destination', /no value in the primary key/)
    await run(['{"id":1,"v":"again"}'])
    await fails(run(['{"id":1,"v":"x"}'], key), 'destination', /already has rows with the same id/)
  })

  it('does not go on from a file that the pipeline cannot have written', async () => {
    const writer = await bench.blobs.writer('foreign')
    await writer.write(await makeFile('CREATE TABLE t (id BIGINT DEFAULT 5); CREATE VIEW v AS SELECT 1'))
    const { size } = await writer.finish()
    const job = bench.job({ source: lineSource(['{"id":1}']), destination, sync: { write: 'append' } })
    const previous = { run_id: job.run_id, parts: [{ key: 'foreign', size }] }
    await fails(bench.run({ ...job, previous }), 'destination', /not one that this pipeline wrote/)
  })
})
