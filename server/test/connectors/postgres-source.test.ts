import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Sync } from '../../src/connectors/contract.ts'
import { openEngine } from '../../src/connectors/duckdb.ts'
import { postgresSource } from '../../src/connectors/postgres/source/source.ts'
import type { Outcome } from '../../src/engine/execute.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'
import { sourceContext } from '../harness/source-context.ts'

describe('a stream of postgres is described', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())
  const describeStreams = async (streams: string[], extra: Record<string, unknown> = {}) =>
    postgresSource.describe(sourceContext(p.bench, postgresSource, { config: { ...p.config, ...extra } }), streams)

  it('with types, nullability, key, cursor candidates and estimated rows', async () => {
    await p.query(`CREATE TABLE described (id int8 PRIMARY KEY, net inet NOT NULL, price numeric(10,2), at timestamptz(3) NOT NULL, day date, other int4);
      INSERT INTO described SELECT g, '10.0.0.1', 1, now() FROM generate_series(1, 500) g; ANALYZE described`)
    const [table] = await describeStreams(['public.described'])
    assert.deepEqual(
      table!.columns!.map(({ name, type, native, nullable }) => [name, type, native!.type, nullable]),
      [
        ['id', 'int64', 'int8', false],
        ['net', 'text', 'inet', false],
        ['price', 'decimal(10,2)', 'numeric(10,2)', true],
        ['at', 'timestamptz', 'timestamptz(3)', false],
        ['day', 'date', 'date', true],
        ['other', 'int32', 'int4', true],
      ],
    )
    assert.deepEqual(table!.primary_key, ['id'])
    assert.deepEqual(table!.cursor_fields, ['at', 'day', 'id'])
    assert.equal(table!.estimated_rows, 500)
  })

  it('also if it is a view, a partitioned table, empty or a query', async () => {
    await p.query(`CREATE TABLE blank (id int4); CREATE VIEW seen AS SELECT 1 AS n, 'x'::text AS t;
      CREATE TABLE parts (id int4, day date) PARTITION BY RANGE (day); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
      INSERT INTO parts SELECT g, '2020-05-05' FROM generate_series(1, 70) g; ANALYZE parts_1`)
    const queries = { mine: 'SELECT 1::int2 AS a', broken: 'SELECT nothing FROM nowhere' }
    const all = await describeStreams(['public.blank', 'public.seen', 'public.parts', 'mine', 'broken'], { queries })
    assert.deepEqual(
      all.map(({ stream, columns, estimated_rows }) => [
        stream,
        columns?.[0]?.type ?? null,
        columns?.[0]?.nullable,
        estimated_rows,
      ]),
      [
        ['public.blank', 'int32', true, 0],
        ['public.seen', 'int32', undefined, null],
        ['public.parts', 'int32', true, 70],
        ['mine', 'int16', undefined, null],
        ['broken', null, undefined, null],
      ],
    )
    await assert.rejects(describeStreams(['public.nowhere']), /There is no table, view or query/)
  })
})

describe('a table into Parquet', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  it('has the types of the table, full or empty', async () => {
    await p.query(`CREATE TABLE typed (n numeric(10,2), d date, t time, at timestamp(0), z timestamptz, u uuid, b bytea, r int4range, f float8, big numeric);
      INSERT INTO typed VALUES (1.5, '2024-02-29', '10:00', '2024-01-01 10:00', '2024-01-01 10:00+02', '9f0c3d2e-0000-4000-8000-000000000000', '\\x00ff', '[1,5)', 'NaN', 12345678901234567890.5)`)
    const convert = async () => {
      const source = { name: 'postgres', stream: 'public.typed', config: p.config }
      const outcome = await p.bench.run(
        p.bench.job({ source, destination: { name: 'file', config: { format: 'parquet' } } }),
      )
      const folder = await mkdtemp(path.join(tmpdir(), 'sluice-parquet-'))
      const engine = await openEngine(folder, AbortSignal.timeout(20_000))
      try {
        await writeFile(path.join(folder, 'file'), await p.bench.readOutput(outcome))
        const table = `read_parquet('${folder}/file')`
        const described = await engine.connection.runAndReadAll(`DESCRIBE SELECT * FROM ${table}`)
        const rows = await engine.connection.runAndReadAll(`SELECT COLUMNS(*)::VARCHAR FROM ${table}`)
        return { types: described.getRowsJson().map((row) => row[1]), rows: rows.getRowsJson() }
      } finally {
        engine.close()
        await rm(folder, { recursive: true })
      }
    }
    const full = await convert()
    assert.deepEqual(full.types, [
      'DECIMAL(10,2)',
      'DATE',
      'TIME',
      'TIMESTAMP',
      'TIMESTAMP WITH TIME ZONE',
      'UUID',
      'BLOB',
      'VARCHAR',
      'DOUBLE',
      'DECIMAL(38,18)',
    ])
    assert.deepEqual(full.rows, [
      [
        '1.50',
        '2024-02-29',
        '10:00:00',
        '2024-01-01 10:00:00',
        '2024-01-01 08:00:00+00',
        '9f0c3d2e-0000-4000-8000-000000000000',
        '\\x00\\xFF',
        '[1,5)',
        'nan',
        '12345678901234567890.500000000000000000',
      ],
    ])
    await p.query('TRUNCATE typed')
    const empty = await convert()
    assert.deepEqual(empty, { types: full.types, rows: [] })
  })
})

describe('source postgres', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  const ids = async (outcome: Outcome) =>
    (await p.records(outcome)).map((record) => record.id).sort((a, b) => Number(a) - Number(b))
  const incremental = (extra: Partial<Sync> = {}): Partial<Sync> => ({
    mode: 'incremental',
    write: 'append',
    cursor_field: 'at',
    ...extra,
  })

  it('lists tables, views and queries, but not partitions, nor what the role may not read', async () => {
    await p.query(`CREATE SCHEMA "odd.schema"; CREATE TABLE "odd.schema"."t""q" (a int);
      CREATE TABLE parent (a int) PARTITION BY LIST (a); CREATE TABLE child PARTITION OF parent FOR VALUES IN (1);
      CREATE VIEW seen AS SELECT 1 AS a; CREATE MATERIALIZED VIEW kept AS SELECT 1 AS a;
      CREATE SCHEMA closed; CREATE TABLE closed.secret (a int);
      CREATE ROLE reader LOGIN PASSWORD 'reader-pw'; GRANT SELECT ON parent, seen, kept TO reader;
      GRANT USAGE ON SCHEMA "odd.schema" TO reader; GRANT SELECT ON "odd.schema"."t""q" TO reader`)
    const context = (extra: object) => sourceContext(p.bench, postgresSource, { config: { ...p.config, ...extra } })
    const mine = { user: 'reader', password: 'reader-pw', queries: { totals: 'SELECT 1 AS a' } }
    assert.deepEqual(await postgresSource.listStreams(context(mine)), [
      'totals',
      '"odd.schema"."t""q"',
      'public.kept',
      'public.parent',
      'public.seen',
    ])
    assert.deepEqual(await postgresSource.listStreams(context({ ...mine, schemas: ['odd.schema'] })), [
      'totals',
      '"odd.schema"."t""q"',
    ])
    await p.query(`INSERT INTO "odd.schema"."t""q" VALUES (7)`)
    assert.deepEqual(await p.records(await p.bench.run(p.read('"odd.schema"."t""q"'))), [{ a: 7 }])
    await p.query('INSERT INTO parent VALUES (1), (1)')
    assert.equal((await p.bench.run(p.read('public.parent'))).records_read, 2)
  })

  it('reads a query as a stream, but only a single SELECT', async () => {
    const queries = { numbers: 'SELECT n AS id, n * 2 AS twice FROM generate_series(1, 5) AS n; ' }
    assert.deepEqual(await ids(await p.bench.run(p.read('numbers', {}, { queries }))), [1, 2, 3, 4, 5])
    const refused = (text: string, why: RegExp) =>
      assert.rejects(p.bench.run(p.read('q', {}, { queries: { q: text } })), why)
    await p.query('CREATE TABLE victim (a int)')
    await refused('SELECT 1) t; DROP TABLE victim; SELECT * FROM (SELECT 1', /multiple commands/)
    await refused('SELECT 1) t) TO STDOUT; COMMIT; DROP TABLE victim; COPY (SELECT 1 FROM (SELECT 1', /cannot be run/)
    await refused("SELECT nextval('nothing')", /nothing/)
    await refused('SELECT 1 AS a, 2 AS a', /two columns named a/)
    assert.equal((await p.query("SELECT to_regclass('victim') AS t"))[0]!.t, 'victim')
  })

  it('cannot write, whatever a query calls', async () => {
    await p.query(
      "CREATE FUNCTION sneak() RETURNS int LANGUAGE plpgsql AS 'BEGIN CREATE TABLE sneaked (a int); RETURN 1; END'",
    )
    await assert.rejects(p.bench.run(p.read('q', {}, { queries: { q: 'SELECT sneak() AS a' } })), /read-only/)
  })

  it('returns types specific to this database as types that any database has', async () => {
    await p.query(`CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TYPE pair AS (a int, b text); CREATE DOMAIN age AS int4 CHECK (VALUE > 0);
      CREATE TABLE typed (m mood, ms mood[], p pair, a age, cash money, n numeric(10,2), v varchar(5), j json, js json[], b bytea, i interval, r int4range);
      INSERT INTO typed VALUES ('glad', '{sad,glad}', '(1,x)', 5, '1234.50', 1.50, 'abc', E'{"x":\\n\\r1}', ARRAY[E'[\\n1]'::json], '\\x00ff', '1 day', '[1,3)')`)
    const outcome = await p.bench.run(
      p.bench.job({
        source: { name: 'postgres', stream: 'public.typed', config: p.config },
        destination: { name: 'postgres', config: { ...p.config, table: 'typed_copy' } },
      }),
    )
    assert.equal(outcome.records_written, 1)
    const columns = await p.query<{ type: string }>(
      `SELECT format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = 'typed_copy'::regclass AND attnum > 0 ORDER BY attnum`,
    )
    assert.deepEqual(
      columns.map(({ type }) => type),
      [
        'text',
        'text[]',
        'jsonb',
        'integer',
        'numeric',
        'numeric(10,2)',
        'character varying(5)',
        'json',
        'json[]',
        'bytea',
        'interval',
        'int4range',
      ],
    )
    const [copied] = await p.query(
      'SELECT m, ms, p, a, cash::text, n::text, v, j::text AS j, b, i::text AS i, r::text AS r FROM typed_copy',
    )
    assert.deepEqual(copied, {
      m: 'glad',
      ms: ['sad', 'glad'],
      p: { a: 1, b: 'x' },
      a: 5,
      cash: '1234.50',
      n: '1.50',
      v: 'abc',
      j: '{"x":\n\r1}',
      b: Buffer.from([0, 255]),
      i: '1 day',
      r: '[1,3)',
    })
    const [record] = await p.records(await p.bench.run(p.read('public.typed')))
    assert.deepEqual(record, {
      ...{
        m: 'glad',
        ms: ['sad', 'glad'],
        p: { a: 1, b: 'x' },
        a: 5,
        cash: 1234.5,
        n: 1.5,
        v: 'abc',
        j: { x: 1 },
        js: [[1]],
      },
      ...{ b: '\\x00ff', i: '1 day', r: '[1,3)' },
    })
  })

  it('hashes, renames and excludes columns in the database', async () => {
    await p.query(
      "CREATE TABLE people (id int, email text, secret text); INSERT INTO people VALUES (1, 'ü@example.com', 'x'), (2, NULL, 'y')",
    )
    const job = { ...p.read('public.people'), columns: { exclude: ['secret'], rename: { id: 'key' }, hash: ['email'] } }
    const { createHash } = await import('node:crypto')
    const email = createHash('sha256').update('ü@example.com').digest('hex')
    assert.deepEqual(await p.records(await p.bench.run(job)), [
      { key: 1, email },
      { key: 2, email: null },
    ])
    await assert.rejects(p.bench.run({ ...job, columns: { hash: ['emial'] } }), /emial/)
  })

  it('sees one snapshot of a large table although several sessions read it while it changes', async () => {
    await p.query(`CREATE TABLE large (id int8, filler text); ALTER TABLE large ALTER filler SET STORAGE PLAIN;
      INSERT INTO large SELECT g, repeat('x', 7000) FROM generate_series(1, 12000) g`)
    let changed = false
    const attempt = p.bench.start(
      { ...p.read('public.large', {}, { parallel: 2 }), columns: { include: ['id'] } },
      {
        async fault(point) {
          if (point !== 'write:before' || changed) return
          changed = true
          await p.query(
            "UPDATE large SET id = id + 1000000 WHERE id % 2 = 0; DELETE FROM large WHERE id % 3 = 0; INSERT INTO large VALUES (-1, 'new')",
          )
        },
      },
    )
    const outcome = await attempt.done
    assert.ok(changed)
    const read = await ids(outcome)
    assert.equal(read.length, 12000)
    assert.deepEqual(read.slice(0, 3), [1, 2, 3])
    assert.equal(read.at(-1), 12000)
    assert.equal(new Set(read).size, 12000)
  })

  describe('incremental', () => {
    it('resumes if rows with long keys share a value, and reports a key that is too long', async () => {
      await p.query(`CREATE TABLE long_keys (key text PRIMARY KEY, at timestamptz);
        INSERT INTO long_keys SELECT repeat(md5(g::text), 100) || g, '2024-01-01' FROM generate_series(1, 1000) g`)
      const sync = { mode: 'incremental', write: 'append', cursor_field: 'at' } as const
      const first = p.read('public.long_keys', sync)
      const outcome = await p.bench.run(first)
      assert.equal(outcome.records_read, 1000)
      assert.ok(JSON.stringify(outcome.cursor).length < 2 * 1024 * 1024)
      assert.equal((await p.bench.run(p.bench.next(first, outcome))).records_read, 0)
      await p.query(`CREATE TABLE huge_keys (key text, at timestamptz);
        INSERT INTO huge_keys SELECT repeat('x', 2000000) || g, '2024-01-01' FROM generate_series(1, 3) g`)
      const huge = p.read('public.huge_keys', { ...sync, primary_key: ['key'] })
      await assert.rejects(p.bench.run(huge), /primary key of a row is 2 MB long, too long to resume from/)
    })

    it('neither loses nor duplicates rows that share the last value', async () => {
      await p.query(
        `CREATE TABLE ties (id int8 PRIMARY KEY, at timestamptz); INSERT INTO ties VALUES (1, '2024-01-01'), (5, '2024-01-02'), (7, '2024-01-02')`,
      )
      const first = p.read('public.ties', incremental())
      const one = await p.bench.run(first)
      assert.deepEqual(await ids(one), [1, 5, 7])
      // A lower key with the same value, one between, and one above: all are new.
      await p.query(
        `INSERT INTO ties VALUES (3, '2024-01-02'), (6, '2024-01-02'), (9, '2024-01-02'), (2, '2024-01-03')`,
      )
      const second = p.bench.next(first, one)
      const two = await p.bench.run(second)
      assert.deepEqual(await ids(two), [2, 3, 6, 9])
      assert.deepEqual(await ids(await p.bench.run(p.bench.next(second, two))), [])
    })

    it('distinguishes rows without a key by their content, and counts equal ones', async () => {
      await p.query(`CREATE TABLE heap (id int8, at int4); INSERT INTO heap VALUES (1, 1), (2, 2), (2, 2)`)
      const first = p.read('public.heap', incremental())
      const one = await p.bench.run(first)
      assert.deepEqual(await ids(one), [1, 2, 2])
      await p.query('INSERT INTO heap VALUES (2, 2), (3, 2)')
      const two = await p.bench.run(p.bench.next(first, one))
      assert.deepEqual(await ids(two), [2, 3])
    })

    it('reads rows without a value once, in the first run, and says how many', async () => {
      await p.query(
        `CREATE TABLE holes (id int8 PRIMARY KEY, at timestamptz); INSERT INTO holes VALUES (1, NULL), (2, '2024-01-01'), (3, NULL)`,
      )
      const first = p.read('public.holes', incremental())
      const attempt = p.bench.start(first)
      const one = await attempt.done
      assert.deepEqual(await ids(one), [1, 2, 3])
      assert.ok(attempt.log.some((line) => /2 rows have no value in at/.test(line)))
      await p.query(`INSERT INTO holes VALUES (4, NULL), (5, '2024-01-01')`)
      assert.deepEqual(await ids(await p.bench.run(p.bench.next(first, one))), [5])
    })

    it('reads late rows within the lookback window, and refuses the window if it would duplicate them', async () => {
      await p.query(
        `CREATE TABLE late (id int8 PRIMARY KEY, at timestamptz); INSERT INTO late VALUES (1, '2024-01-01 00:00'), (2, '2024-01-01 01:00')`,
      )
      const sync = incremental({ write: 'upsert', primary_key: ['id'], lookback_seconds: 1800 })
      const first = p.read('public.late', sync)
      const one = await p.bench.run(first)
      await p.query(`INSERT INTO late VALUES (3, '2024-01-01 00:45'), (4, '2024-01-01 00:15')`)
      assert.deepEqual(await ids(await p.bench.run(p.bench.next(first, one))), [2, 3])
      await assert.rejects(p.bench.run(p.read('public.late', incremental({ lookback_seconds: 60 }))), /upsert/)
      await p.query('CREATE TABLE counted (id int8 PRIMARY KEY, at int8)')
      await assert.rejects(p.bench.run(p.read('public.counted', sync)), /time/)
    })

    it('resumes within a run right after its last checkpoint, also among equal values', async () => {
      await p.query(`CREATE TABLE many (id int8 PRIMARY KEY, at int4, filler text);
        INSERT INTO many SELECT g, g / 10000, repeat('x', 60) FROM generate_series(1, 30000) g`)
      for (const nth of [1, 2, 4]) {
        const doomed = p.read('public.many', incremental())
        assert.ok(await p.bench.crash(doomed, 'commit:after', nth, { checkpointRecords: 2000 }))
        const outcome = await p.bench.run(p.bench.again(doomed), { checkpointRecords: 2000 })
        assert.deepEqual(
          await ids(outcome),
          Array.from({ length: 30000 }, (_, at) => at + 1),
        )
        const next = p.bench.next(doomed, outcome)
        assert.deepEqual(await ids(await p.bench.run(next)), [])
      }
    })

    it('resumes among more equal values than it lists, with and without a key', async () => {
      await p.query(`CREATE TABLE flat (id int8, at int4, filler text); INSERT INTO flat SELECT g, 1, repeat('x', 60) FROM generate_series(1, 15000) g;
        CREATE TABLE flat_key (LIKE flat, PRIMARY KEY (id)); INSERT INTO flat_key SELECT * FROM flat`)
      for (const table of ['flat', 'flat_key']) {
        const doomed = p.read(`public.${table}`, incremental())
        assert.ok(await p.bench.crash(doomed, 'commit:after', 2, { checkpointRecords: 2500 }))
        const again = p.bench.start(p.bench.again(doomed), { checkpointRecords: 2500 })
        const outcome = await again.done
        assert.deepEqual(
          await ids(outcome),
          Array.from({ length: 15000 }, (_, at) => at + 1),
        )
        assert.ok(again.log.some((line) => /More than 5000 rows share/.test(line)))
        assert.deepEqual(await ids(await p.bench.run(p.bench.next(doomed, outcome))), [])
      }
    })

    it('starts where a person set the state', async () => {
      await p.query(
        `CREATE TABLE backfill (id int8 PRIMARY KEY, at date); INSERT INTO backfill SELECT g, date '2024-01-01' + g::int4 FROM generate_series(0, 9) g`,
      )
      const job = p.read('public.backfill', incremental())
      const from = (cursor: never) => p.bench.run({ ...job, state: { seq: 1, cursor, fingerprint: null } })
      assert.deepEqual(await ids(await from({ cursor: '2024-01-08' } as never)), [7, 8, 9])
      assert.deepEqual(await ids(await from('2024-01-09' as never)), [8, 9])
      await assert.rejects(from([1] as never), /state/)
    })

    it('supports excluded and hashed cursors, because they are not taken from the records', async () => {
      await p.query(
        `CREATE TABLE hidden (id int8 PRIMARY KEY, at timestamptz); INSERT INTO hidden VALUES (1, '2024-01-01'), (2, '2024-01-02')`,
      )
      const first = { ...p.read('public.hidden', incremental()), columns: { exclude: ['at'] } }
      const one = await p.bench.run(first)
      assert.deepEqual(await p.records(one), [{ id: 1 }, { id: 2 }])
      await p.query("INSERT INTO hidden VALUES (3, '2024-01-02')")
      assert.deepEqual(await p.records(await p.bench.run(p.bench.next(first, one))), [{ id: 3 }])
    })
  })
})

describe('the output of a run from table to table', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  it('is read by the file source with the same values as the table itself', async () => {
    await p.query(`CREATE TABLE typed (id int8, price numeric, at timestamptz, wall timestamp, tags text[], doc json, raw bytea, ok boolean, net inet);
      INSERT INTO typed SELECT g, g / 3.0, now() + g * interval '1.001 second', now(), ARRAY['a,b', NULL, 'q"' || g], '{"a":\n[1.50]}', '\\x00ff', g % 2 = 0, '10.0.0.1'
        FROM generate_series(1, 500) g; INSERT INTO typed DEFAULT VALUES`)
    const { bench, config } = p
    const from = { name: 'postgres', stream: 'public.typed', config }
    const copied = await bench.run(
      bench.job({ source: from, destination: { name: 'postgres', config: { ...config, schema: 'copied' } } }),
    )
    const { parts, columns, extension } = copied.output!
    assert.equal(extension, 'tsv')
    const run_id = '11111111-2222-4333-8444-555555555555'
    const rows = async (source: Parameters<typeof bench.job>[0]['source'], overrides = {}) => {
      const outcome = await bench.run(bench.job({ source, destination: { name: 'file' } }, overrides))
      return (await bench.readOutput(outcome)).toString().split('\n').slice(0, -1)
    }
    const overrides = { outputs: { [run_id]: parts }, output_columns: { [run_id]: columns! } }
    assertSameRows(await rows({ name: 'file', stream: 'rows', config: { run_id } }, overrides), await rows(from))
  })
})
