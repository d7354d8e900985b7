import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { copyFile, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { fetchFile } from '../../src/connectors/database-file/fetch-file.ts'
import { checkHead } from '../../src/connectors/sqlite/database.ts'
import { sqliteSource } from '../../src/connectors/sqlite/source/source.ts'
import type { Outcome } from '../../src/engine/execute.ts'
import { type FileServer, startFileServer } from '../harness/file-server.ts'
import { type JobParts, openRunBench, type RunBench } from '../harness/run-bench.ts'
import { sourceContext } from '../harness/source-context.ts'

let bench: RunBench
let server: FileServer
let folder: string
before(async () => {
  bench = await openRunBench()
  server = await startFileServer()
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-sqlite-'))
})
after(async () => {
  await server.close()
  await bench.close()
  await rm(folder, { recursive: true })
})

let made = 0

/** The bytes of a database that this SQL makes. */
async function makeFile(sql: string): Promise<Buffer> {
  const file = path.join(folder, `${++made}.sqlite`)
  const db = new DatabaseSync(file)
  db.exec(sql)
  db.close()
  return readFile(file)
}

const serve = async (sql: string): Promise<string> => server.put(`${made + 1}.sqlite`, await makeFile(sql))
const jobFor = (url: string, stream: string, sync: JobParts['sync'] = {}) =>
  bench.job({ source: { name: 'sqlite', stream, config: { url } }, destination: { name: 'file' }, sync })

async function readRows(outcome: Outcome): Promise<string[]> {
  return (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1)
}
const read = async (url: string, stream = 't'): Promise<string[]> => readRows(await bench.run(jobFor(url, stream)))

function fails(work: Promise<unknown>, kind: string, message: RegExp): Promise<void> {
  return assert.rejects(work, (error: unknown) => {
    assert.ok(error instanceof ConnectorError, String(error))
    assert.equal(error.kind, kind, error.message)
    assert.match(error.message, message)
    return true
  })
}

describe('values', () => {
  it('a value that does not fit the declared type is read as what it is', async () => {
    const url = await serve(`
      CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT, b BOOLEAN, d DATE, j JSON, x);
      INSERT INTO t VALUES (1, 9223372036854775807, 'a' || char(0) || 'b', 1, '2024-01-31', '{"a": 1}', 0.1);
      INSERT INTO t VALUES (2, 'many', x'00ff', 7, 20240131, 'no json', x'01');
      INSERT INTO t VALUES (3, 1.5, 12, NULL, 'soon', 12, 9e999);`)
    assert.deepEqual(await read(url), [
      '{"id":1,"n":9223372036854775807,"s":"a\\u0000b","b":1,"d":"2024-01-31","j":"{\\"a\\": 1}","x":0.1}',
      '{"id":2,"n":"many","s":"\\\\x00ff","b":7,"d":20240131,"j":"no json","x":"\\\\x01"}',
      '{"id":3,"n":1.5,"s":"12","b":null,"d":"soon","j":12,"x":"Infinity"}',
    ])
  })

  it('describes columns, keys, cursors and rows, of views too', async () => {
    const url = await serve(`
      CREATE TABLE orders (id INTEGER PRIMARY KEY, total DECIMAL(10,2), paid BOOLEAN, at DATETIME, seen TIMESTAMP NOT NULL, note);
      INSERT INTO orders VALUES (1, 9.99, 1, '2024-01-31 12:00:00', '2024-01-31T12:00:00Z', x'00'), (7, 5, 0, NULL, '2024-01-31 12:00:00.5+01:00', NULL);
      CREATE VIEW totals AS SELECT id, total * 2 AS twice FROM orders;`)
    const context = sourceContext(bench, sqliteSource, { config: { url } })
    assert.deepEqual(await sqliteSource.listStreams(context), ['orders', 'totals'])
    const [orders, totals] = await sqliteSource.describe(context, ['orders', 'totals'])
    assert.deepEqual(
      orders!.columns!.map(({ name, type, native, nullable }) => [name, type, native?.type, nullable]),
      [
        ['id', 'int64', 'INTEGER', undefined],
        ['total', 'decimal(10,2)', 'DECIMAL(10,2)', undefined],
        ['paid', 'boolean', 'BOOLEAN', undefined],
        ['at', 'timestamp', 'DATETIME', undefined],
        ['seen', 'timestamptz', 'TIMESTAMP', false],
        ['note', 'bytes', undefined, undefined],
      ],
    )
    assert.deepEqual(
      [orders!.primary_key, orders!.cursor_fields, orders!.estimated_rows],
      [['id'], ['seen', 'at', 'id'], 7],
    )
    assert.deepEqual(
      totals!.columns!.map(({ name, type }) => [name, type]),
      [
        ['id', 'int64'],
        ['twice', 'decimal'],
      ],
    )
  })
})

describe('the disk', () => {
  const spill = `CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 2000)
    SELECT x, hex(zeroblob(20000)) AS pad, row_number() OVER (ORDER BY hex(randomblob(8)), hex(zeroblob(20000))) AS n FROM c`
  const written = (): number => Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))![1])

  it('is not written by a view that sorts, unless its rows are read', async () => {
    const url = await serve(spill)
    const context = { ...sourceContext(bench, sqliteSource, { config: { url } }), stream: 'v' }
    const before = written()
    const [view] = await sqliteSource.describe(context, ['v'])
    assert.equal(view!.columns!.length, 3)
    await sqliteSource.check(context)
    assert.ok(written() - before < 10_000_000, `${written() - before} bytes were written`)
    assert.equal((await read(url, 'v')).length, 2000)
  })
})

describe('incremental reads', () => {
  const sync = { mode: 'incremental', write: 'append', cursor_field: 'at' } as const

  it('rows with the last value are read once each, also those that arrive later', async () => {
    const table = 'CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT);'
    const rows = "INSERT INTO t VALUES (1, '2024-01-01'), (2, '2024-01-02'), (3, '2024-01-02'), (4, NULL);"
    const url = await serve(table + rows)
    const first = jobFor(url, 't', sync)
    const outcome = await bench.run(first)
    assert.equal(outcome.records_read, 4)
    server.put(
      new URL(url).pathname.slice(1),
      await makeFile(`${table}${rows}INSERT INTO t VALUES (0, '2024-01-02'), (5, '2024-01-01'), (6, '2024-01-03');`),
    )
    const later = await readRows(await bench.run(bench.next(first, outcome)))
    assert.deepEqual(later, ['{"id":0,"at":"2024-01-02"}', '{"id":6,"at":"2024-01-03"}'])
  })

  it('more rows than can be listed share one value, and a resume loses and doubles none', async () => {
    const url = await serve(`CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER, pad TEXT);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
      INSERT INTO t SELECT i, CASE WHEN i < 11000 THEN 5 ELSE i END, hex(randomblob(20)) FROM n;`)
    const doomed = jobFor(url, 't', sync)
    assert.ok(await bench.crash(doomed, 'commit:after', 3, { checkpointRecords: 2000 }))
    const rows = await readRows(await bench.run(bench.again(doomed)))
    assert.equal(new Set(rows).size, 12_000)
    assert.equal(rows.length, 12_000)
  })

  it('looks back from a cursor that is a time', async () => {
    const url = await serve(`CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME);
      INSERT INTO t VALUES (1, '2024-01-01 10:00:00'), (2, '2024-01-01 11:30:00'), (3, '2024-01-01 12:00:00.25');`)
    const upsert: JobParts['sync'] = { ...sync, write: 'upsert', primary_key: ['id'], lookback_seconds: 3600 }
    const first = jobFor(url, 't', upsert)
    const outcome = await bench.run(first)
    assert.equal((await bench.run(bench.next(first, outcome))).records_read, 2)
  })

  it('refuses a cursor that holds numbers and texts', async () => {
    const url = await serve("CREATE TABLE t (id, at); INSERT INTO t VALUES (1, 1), (2, 'x');")
    await fails(bench.run(jobFor(url, 't', sync)), 'config', /at holds values of several kinds/)
  })
})

describe('files that are not what they should be', () => {
  it('says what is wrong with the file', async () => {
    await fails(
      read(server.put('page.html', '<html></html>')),
      'source',
      /no SQLite database.*encrypted.*check the url/,
    )
    await fails(read(server.put('empty', '')), 'source', /empty/)
    await fails(read(server.url('missing.sqlite')), 'source', /no such file; check the url/)
    const whole = await makeFile(`CREATE TABLE t (a);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO t SELECT hex(randomblob(50)) FROM n;`)
    const torn = path.join(folder, 'torn')
    await writeFile(torn, whole)
    await truncate(torn, 20_480)
    await fails(
      read(server.put('torn', await readFile(torn))),
      'source',
      /t cannot be read\. The database file is damaged/,
    )
    await fails(read(server.put('whole', whole), 'u'), 'config', /no table or view u; it has t/)
  })

  it('reads one that is compressed, and one in WAL mode without its -wal', async () => {
    const bytes = await makeFile('CREATE TABLE t (a); INSERT INTO t VALUES (1)')
    assert.deepEqual(await read(server.put('t.sqlite.gz', gzipSync(bytes))), ['{"a":1}'])
    const file = path.join(folder, 'wal.sqlite')
    const db = new DatabaseSync(file)
    db.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (2); PRAGMA wal_checkpoint(TRUNCATE)')
    await copyFile(file, `${file}.copy`)
    db.close()
    assert.deepEqual(await read(server.put('wal.sqlite', await readFile(`${file}.copy`))), ['{"a":2}'])
  })

  it('stops copying a file that is too large', async () => {
    const url = await serve('CREATE TABLE t (a)')
    const context = sourceContext(bench, sqliteSource, { config: { url } })
    await fails(fetchFile(context, checkHead, 4096), 'limit', /larger than 4 KB/)
  })

  it('nothing in a file reaches anything else', async () => {
    const url = await serve(`
      CREATE TABLE t (a); INSERT INTO t VALUES (1);
      CREATE VIRTUAL TABLE words USING fts5(a); INSERT INTO words VALUES ('x');
      CREATE VIEW through AS SELECT * FROM words;
      CREATE VIEW pragmas AS SELECT * FROM pragma_database_list;
      CREATE VIEW loads AS SELECT load_extension('x') AS a;`)
    const context = sourceContext(bench, sqliteSource, { config: { url } })
    assert.deepEqual(await sqliteSource.listStreams(context), ['loads', 'pragmas', 't', 'through'])
    await fails(read(url, 'words'), 'config', /no table or view words/)
    await fails(read(url, 'through'), 'source', /not allowed in a file from outside/)
    await fails(read(url, 'pragmas'), 'source', /unsafe use of/)
    await fails(read(url, 'loads'), 'source', /cannot be read/)
  })
})

it('reads the output of another run of the organization, and no other run', async () => {
  const write = bench.job({
    source: { name: 'dummy', config: { records: 3 } },
    destination: { name: 'sqlite', config: { table: 't' } },
  })
  const { output } = await bench.run(write)
  const source = { name: 'sqlite', stream: 't', config: { run_id: write.run_id.toUpperCase() } }
  const job = bench.job({ source, destination: { name: 'file' } }, { outputs: { [write.run_id]: output!.parts } })
  assert.equal((await bench.run(job)).records_read, 3)
  await fails(bench.run(bench.job({ source, destination: { name: 'file' } })), 'config', /no readable output/)
})
