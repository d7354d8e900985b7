import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ConnectorError, type Page } from '../../src/connectors/contract.ts'
import { mysqlSource } from '../../src/connectors/mysql/source/source.ts'
import type { Json } from '../../src/json/json.ts'
import { heldBytes } from '../harness/held-bytes.ts'
import { findAbsence } from '../harness/mariadb-server.ts'
import { type MysqlBench, openMysqlBench } from '../harness/mysql-bench.ts'
import { openPostgresBench } from '../harness/postgres-bench.ts'
import { sourceContext } from '../harness/source-context.ts'
import { parseRows } from '../harness/tsv-rows.ts'

const absence = findAbsence()
if (absence !== null) console.log(`the mysql source is not tested: ${absence}`)

const everything = `
  t tinyint unsigned, s smallint, m mediumint unsigned, i int unsigned zerofill, b bigint unsigned, d decimal(65,30), f float, g double,
  bits bit(64), y year, day date, at datetime(6), stamp timestamp(3) null, clock time(6), j json, e enum('it''s','b)'), st set('x','y'),
  c char(5), latin varchar(20) character set latin1, bin varbinary(10), raw longblob, place geometry, long_text longtext`

describe('the mysql source', { skip: absence !== null }, () => {
  let m: MysqlBench
  before(async () => {
    if (absence === null) m = await openMysqlBench()
  })
  after(() => m?.close())
  const context = (extra: Record<string, unknown> = {}) =>
    sourceContext(m.bench, mysqlSource, { config: { ...m.config, ...extra } })
  const read = async (stream: string, extra: Record<string, unknown> = {}) =>
    m.records(await m.bench.run(m.read(stream, {}, extra)))

  /** Typed pages of a whole stream. */
  const openPages = async (stream: string, extra: Record<string, unknown> = {}): Promise<AsyncGenerator<Page>> => {
    const { sync } = m.read(stream)
    const parts = { stream, encoding: 'tsv' as const, sync, columns: {}, state: null, resume: null }
    const { pages } = await mysqlSource.read({ ...context(extra), ...parts })
    return pages as AsyncGenerator<Page>
  }

  it('gives every type without loss, and declares what it gives', async () => {
    await m.sql(`CREATE TABLE everything (${everything});
      INSERT INTO everything VALUES (255, -32768, 16777215, 42, 18446744073709551615, 12345678901234567890123456789012345.123456789012345678901234567891,
        16777216.5, 0.1, b'1111111111111111111111111111111111111111111111111111111111111111', 2155, '2024-02-29', '9999-12-31 23:59:59.999999',
        '2038-01-19 03:14:07.999', '-838:59:58.999999', '{"a": [1, 12345678901234567890.12345]}', 'it''s', 'x,y', 'ab', _utf8mb4 'é€', X'00FF', X'090A5C', POINT(1, 2),
        CONCAT('a', CHAR(0), 'b\\t\\n'));
      INSERT INTO everything (t, f, g, clock, y) VALUES (0, 0.1, 1e300, '00:00:01', 0)`)
    const [first, second] = await read('everything')
    const text = (await m.bench.readOutput(await m.bench.run(m.read('everything')))).toString()
    assert.match(
      text,
      /"b":18446744073709551615,"d":12345678901234567890123456789012345\.123456789012345678901234567891,/,
    )
    assert.match(text, /"bits":18446744073709551615/)
    assert.match(text, /12345678901234567890\.12345/)
    const { b: _b, d: _d, bits: _bits, j: _j, place, ...rest } = first!
    assert.deepEqual(rest, {
      t: 255,
      s: -32768,
      m: 16777215,
      i: 42,
      f: 16777216,
      g: 0.1,
      y: 2155,
      day: '2024-02-29',
      at: '9999-12-31T23:59:59.999999',
      stamp: '2038-01-19T03:14:07.999+00:00',
      clock: '-838:59:58.999999',
      e: "it's",
      st: 'x,y',
      c: 'ab',
      latin: 'é€',
      bin: '\\x00ff',
      raw: '\\x090a5c',
      long_text: 'a\0b\t\n',
    })
    assert.match(place as string, /^\\x0{8}0101000000/)
    assert.deepEqual(
      [second!.f, second!.g, second!.clock, second!.y, second!.at],
      [0.1, 1e300, '00:00:01.000000', 0, null],
    )
    const [table] = await mysqlSource.describe(context(), ['everything'])
    assert.deepEqual(Object.fromEntries(table!.columns!.map(({ name, type }) => [name, type])), {
      t: 'int16',
      s: 'int16',
      m: 'int32',
      i: 'int64',
      b: 'decimal(20,0)',
      d: 'decimal(65,30)',
      f: 'float32',
      g: 'float64',
      bits: 'decimal(20,0)',
      y: 'int16',
      day: 'date',
      at: 'timestamp',
      stamp: 'timestamptz',
      clock: 'interval',
      j: 'json',
      e: 'text',
      st: 'text',
      c: 'text',
      latin: 'text',
      bin: 'bytes',
      raw: 'bytes',
      place: 'bytes',
      long_text: 'text',
    })
  })

  it('gives typed rows with the same values', async () => {
    await m.sql(`CREATE TABLE typed (id int, flag tinyint(1), raw blob, stamp timestamp(6) null, note text, f float);
      INSERT INTO typed VALUES (1, 1, X'00', '2024-01-01 00:00:00.5', 'tab\\tnewline\\nback\\\\slash', 0.1), (2, 0, NULL, NULL, '\\\\N', NULL)`)
    const reading = await mysqlSource.read({
      ...context({ tinyint1_as_boolean: true }),
      stream: 'typed',
      encoding: 'tsv',
      sync: m.read('typed').sync,
      columns: {},
      state: null,
      resume: null,
    })
    const pages: Buffer[] = []
    for await (const page of reading.pages) pages.push(page.bytes)
    assert.deepEqual(parseRows(Buffer.concat(pages)), [
      ['1', 't', '\\x00', '2024-01-01 00:00:00.500000+00', 'tab\tnewline\nback\\slash', '0.1'],
      ['2', 'f', null, null, '\\N', null],
    ])
  })

  it('gives typed rows that need no change, and those between them that do', async () => {
    await m.sql(`CREATE TABLE mostly_plain (id int, t text, day date, e text);
      INSERT INTO mostly_plain VALUES (1, 'plain', '2024-02-29', ''), (2, '', NULL, 'tab\\t'), (3, repeat('é', 125), '2024-01-01', 'x'),
        (4, repeat('é', 126), '2024-01-01', 'x'), (5, 'a\\\\b', '2024-01-01', ''), (6, NULL, NULL, NULL), (7, '', '2024-01-01', '')`)
    const rows = parseRows(
      Buffer.concat((await Array.fromAsync(await openPages('mostly_plain'))).map((page) => page.bytes)),
    )
    assert.deepEqual(rows, [
      ['1', 'plain', '2024-02-29', ''],
      ['2', '', null, 'tab\t'],
      ['3', 'é'.repeat(125), '2024-01-01', 'x'],
      ['4', 'é'.repeat(126), '2024-01-01', 'x'],
      ['5', 'a\\b', '2024-01-01', ''],
      ['6', null, null, null],
      ['7', '', '2024-01-01', ''],
    ])
  })

  it('describes keys, cursor candidates, nullability and about how many rows', async () => {
    await m.sql(`CREATE TABLE described (id bigint unsigned PRIMARY KEY, at timestamp(6) NOT NULL DEFAULT current_timestamp(6), day date NOT NULL, n int);
      INSERT INTO described SELECT seq, now(), now(), 1 FROM seq_1_to_500; ANALYZE TABLE described; CREATE VIEW seen AS SELECT 1 AS one, 'x' AS t`)
    const queries = {
      mine: "SELECT CAST(1 AS DECIMAL(10,2)) AS a, b.id, X'00' AS raw FROM described b -- all",
      broken: 'SELECT nothing FROM nowhere',
    }
    const all = await mysqlSource.describe(context({ queries }), ['described', `${m.database}.seen`, 'mine', 'broken'])
    const [table, view, query, broken] = all as [
      (typeof all)[number],
      (typeof all)[number],
      (typeof all)[number],
      (typeof all)[number],
    ]
    assert.deepEqual(
      table.columns!.map(({ name, type, native, nullable }) => [name, type, native?.type, nullable]),
      [
        ['id', 'decimal(20,0)', 'bigint unsigned', false],
        // A date that does not exist becomes null.
        ['at', 'timestamptz', 'timestamp(6)', true],
        ['day', 'date', 'date', true],
        ['n', 'int32', 'int', true],
      ],
    )
    assert.deepEqual([table.primary_key, table.cursor_fields, table.estimated_rows], [['id'], ['at', 'day', 'id'], 500])
    assert.deepEqual([view.columns!.map(({ type }) => type), view.estimated_rows], [['int32', 'text'], null])
    assert.deepEqual(
      query.columns!.map(({ type }) => type),
      ['decimal(10,2)', 'decimal(20,0)', 'bytes'],
    )
    assert.equal(broken.columns, null)
    assert.equal((await read('mine', { queries })).length, 500)
  })

  it('lists the tables of all databases that the user may see', async () => {
    await m.sql('CREATE DATABASE `other.one`; CREATE TABLE `other.one`.`a table` (id int)')
    const listed = await mysqlSource.listStreams(context())
    assert.ok(listed.includes('"other.one".a table') && !listed.some((name) => name.startsWith('mysql.')))
    assert.deepEqual(await read('"other.one".a table'), [])
    assert.deepEqual(await mysqlSource.listStreams(context({ databases: ['other.one'] })), ['"other.one".a table'])
  })

  it('reads dates that do not exist as null and counts them, as text, or not at all', async () => {
    await m.sql(`SET sql_mode = 'ALLOW_INVALID_DATES'; CREATE TABLE zero (id int, day date, at datetime);
      INSERT INTO zero VALUES (1, '0000-00-00', '0000-00-00 00:00:00'), (2, '2024-02-31', '2024-01-00 10:00:00'), (3, '2024-02-29', '2023-02-28 10:00:00')`)
    const attempt = m.bench.start(m.read('zero'))
    assert.deepEqual(
      (await m.records(await attempt.done)).map(({ day, at }) => [day, at]),
      [
        [null, null],
        [null, null],
        ['2024-02-29', '2023-02-28T10:00:00'],
      ],
    )
    assert.ok(attempt.log.some((line) => line.startsWith('warn 2 values of day are dates that do not exist')))
    const texts = await read('zero', { zero_dates: 'text' })
    assert.deepEqual(texts[1], { id: 2, day: '2024-02-31', at: '2024-01-00 10:00:00' })
    await assert.rejects(read('zero', { zero_dates: 'fail' }), /The column day holds "0000-00-00"/)
  })

  it('loses no row that arrives later with the last cursor value, whatever its type', async () => {
    const cursors: Record<string, [type: string, values: [string, string, string]]> = {
      number: ['bigint unsigned', ['1', '18446744073709551614', '18446744073709551615']],
      time: ['datetime(6)', ["'0000-00-00'", "'2024-01-02 00:00:00.5'", "'2024-01-03'"]],
      stamp: ['timestamp(6) null', ["'2024-01-01'", "'2024-01-02 00:00:00.5'", "'2024-01-03'"]],
      text: ['varchar(20)', ["'A'", "'a'", "'a '"]],
      bytes: ['varbinary(20)', ["X'00'", "X'0001'", "X'FF'"]],
      float: ['float', ['0.1', '0.2', '0.3']],
      clock: ['time(3)', ["'-01:00:00'", "'100:00:00'", "'100:00:00.5'"]],
    }
    for (const [name, [type, [low, last, high]]] of Object.entries(cursors)) {
      const table = `ties_${name}`
      await m.sql(`SET sql_mode = ''; CREATE TABLE ${table} (id int PRIMARY KEY, c ${type});
        INSERT INTO ${table} VALUES (0, NULL), (1, ${low}), (5, ${last}), (7, ${last})`)
      const first = m.read(table, { mode: 'incremental', write: 'append', cursor_field: 'c' })
      const earlier = await m.bench.run(first)
      assert.deepEqual(
        (await m.records(earlier)).map(({ id }) => id),
        [0, 1, 5, 7],
        name,
      )
      assert.equal((await m.records(await m.bench.run(m.bench.next(first, earlier)))).length, 0, name)
      await m.sql(`INSERT INTO ${table} VALUES (3, ${last}), (6, ${last}), (9, ${last}), (2, ${high}), (10, NULL)`)
      const later = await m.bench.run(m.bench.next(first, earlier))
      assert.deepEqual(
        (await m.records(later)).map(({ id }) => id),
        [3, 6, 9, 2],
        name,
      )
    }
  })

  it('resumes in the middle of more equal values than it can list', async () => {
    await m.sql('CREATE TABLE many (id int PRIMARY KEY, c int); INSERT INTO many SELECT seq, 1 FROM seq_1_to_7000')
    const job = m.read('many', { mode: 'incremental', write: 'append', cursor_field: 'c' })
    const first = await m.bench.run(job)
    await m.sql('INSERT INTO many SELECT seq, 1 FROM seq_7001_to_7010')
    const second = await m.bench.run(m.bench.next(job, first))
    assert.deepEqual([(await m.records(first)).length, (await m.records(second)).length], [7000, 10])
  })

  it('reads a row again that changed within the same cursor value, however long it is', async () => {
    // As hex digits the value would exceed max_allowed_packet.
    await m.sql(
      "CREATE TABLE huge (id int PRIMARY KEY, c int, raw longblob); INSERT INTO huge VALUES (1, 1, repeat('x', 9000000)), (2, 1, 'short')",
    )
    const sync = m.read('huge', { mode: 'incremental', write: 'upsert', primary_key: ['id'], cursor_field: 'c' }).sync
    const read = async (state: Json): Promise<Page[]> => {
      const parts = { stream: 'huge', encoding: 'tsv' as const, sync, columns: { include: ['id'] }, resume: null }
      return Array.fromAsync((await mysqlSource.read({ ...context(), ...parts, state })).pages)
    }
    const [first] = await read(null)
    assert.equal(first!.bytes.toString().split('\n').length, 3)
    assert.deepEqual(await read(first!.cursor!), [])
    await m.sql("UPDATE huge SET raw = concat(repeat('x', 8999999), 'y') WHERE id = 1")
    assert.deepEqual(
      (await read(first!.cursor!)).map(({ bytes }) => bytes.toString()),
      ['1\n'],
    )
  })

  it('shows one moment, whatever others commit while it is read', async () => {
    await m.sql(
      "CREATE TABLE moment (id int PRIMARY KEY, t longtext); INSERT INTO moment SELECT seq, repeat('x', 1000) FROM seq_1_to_20000",
    )
    const pages = await openPages('moment')
    let rows = (await pages.next()).value!.records
    await m.sql(
      "DELETE FROM moment WHERE id % 2 = 0; UPDATE moment SET t = 'changed'; INSERT INTO moment SELECT seq, 'new' FROM seq_30000_to_30100",
    )
    for await (const page of pages) {
      rows += page.records
      assert.ok(!page.bytes.includes('changed') && !page.bytes.includes('new'))
    }
    assert.equal(rows, 20_000)
  })

  it('keeps its memory flat, also where the reader is slower than the server', async () => {
    const queries = { long: "SELECT seq, repeat('x', 1000) AS t FROM seq_1_to_200000" }
    const before = heldBytes()
    let most = 0
    let rows = 0
    let bytes = 0
    let looked = 0
    for await (const page of await openPages('long', { queries })) {
      rows += page.records
      bytes += page.bytes.length
      // Whatever has arrived meanwhile is in memory now.
      await new Promise((resolve) => setImmediate(resolve))
      if (bytes - looked < 5_000_000) continue
      looked = bytes
      most = Math.max(most, heldBytes() - before)
    }
    assert.equal(rows, 200_000)
    assert.ok(bytes > 200_000_000)
    assert.ok(most < 48 * 1024 * 1024, `${most} bytes`)
  })

  it('refuses a state that it cannot start from, and a cursor that is none of its column', async () => {
    assert.throws(() => mysqlSource.checkState!({ position: 1 }), /is not a state of this source/)
    mysqlSource.checkState!({ cursor: '2024-01-31' })
    const job = m.read('described', { mode: 'incremental', write: 'append', cursor_field: 'at' })
    await assert.rejects(
      m.bench.run({ ...job, state: { seq: 1, cursor: { cursor: "1' OR 1=1 -- " }, fingerprint: job.fingerprint } }),
      /holds "1' OR 1=1 -- " for at, which is not a date or time; set or reset it/,
    )
  })

  it('reaches postgres as typed rows', async () => {
    const p = await openPostgresBench()
    try {
      const job = m.bench.job({
        source: { name: 'mysql', stream: 'everything', config: m.config },
        destination: { name: 'postgres', config: { ...p.config, table: 'everything' } },
      })
      const attempt = m.bench.start(job)
      await attempt.done
      assert.ok(attempt.log.some((line) => line.startsWith('warn 1 characters that PostgreSQL cannot store')))
      const [row] = await p.query(
        'SELECT b::text, clock::text, raw::text, stamp::text, j::text, d::text, long_text FROM everything WHERE t = 255',
      )
      assert.deepEqual(row, {
        b: '18446744073709551615',
        clock: '-838:59:58.999999',
        raw: '\\x090a5c',
        stamp: '2038-01-19 03:14:07.999+00',
        j: '{"a": [1, 12345678901234567890.12345]}',
        d: '12345678901234567890123456789012345.123456789012345678901234567891',
        // PostgreSQL has no U+0000.
        long_text: 'a\ufffdb\t\n',
      })
    } finally {
      await p.close()
    }
  })

  it('says what to do where it cannot read', async () => {
    await m.sql(
      `CREATE TABLE secret_rows (id int); CREATE USER nobody@'%' IDENTIFIED BY 'nobody-7d21'; GRANT SELECT ON ${m.database}.typed TO nobody@'%'`,
    )
    const failure = async (stream: string, extra: Record<string, unknown>): Promise<string> => {
      const error = await read(stream, extra).then(
        () => null,
        (reason: unknown) => reason,
      )
      assert.ok(error instanceof ConnectorError, String(error))
      return `${error.kind}: ${error.message}`
    }
    const nobody = { user: 'nobody', password: 'nobody-7d21' }
    assert.match(await failure('typed', { password: 'no' }), /^auth: .*Access denied.*Check user and password/)
    assert.match(
      await failure('typed', { database: 'nowhere' }),
      /^config: .*Unknown database.*Check the name of the database/,
    )
    assert.match(
      await failure('nowhere', {}),
      /^config: There is no table, view or query nowhere that this user may read/,
    )
    assert.match(await failure('secret_rows', nobody), /^config: There is no table, view or query secret_rows/)
    assert.match(
      await failure('q', { ...nobody, queries: { q: 'SELECT * FROM secret_rows' } }),
      /^auth: .*Grant the user this privilege/,
    )
    assert.match(await failure('q', { queries: { q: 'DELETE FROM typed' } }), /^config: The query q cannot be run/)
    assert.match(
      await failure('q', { queries: { q: 'SELECT 1 AS a; DROP TABLE typed' } }),
      /^config: The query q cannot be run/,
    )
  })

  it('reports a server that is killed in the middle as one that may come back', async () => {
    await m.sql(
      "CREATE TABLE large (id int, t longtext); INSERT INTO large SELECT seq, repeat('x', 1000) FROM seq_1_to_30000",
    )
    const pages = await openPages('large')
    await pages.next()
    const [id] = await m.sql(
      "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT%large%' AND user = 'tester'",
    )
    await m.sql(`KILL ${id}`)
    await assert.rejects(
      async () => {
        while (!(await pages.next()).done);
      },
      (error: unknown) =>
        error instanceof ConnectorError && error.transient && /connection was lost/.test(error.message),
    )
  })
})
