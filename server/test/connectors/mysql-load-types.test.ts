/** Typed rows of other systems and of MySQL itself, by LOAD DATA and by INSERT. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Sync } from '../../src/connectors/contract.ts'
import { listToJson } from '../../src/connectors/mysql/destination/lists.ts'
import type { Job } from '../../src/engine/execute.ts'
import { lineSource } from '../harness/line-source.ts'
import { findAbsence, type MariadbServer, startServer } from '../harness/mariadb-server.ts'
import { type MysqlBench, openMysqlBench } from '../harness/mysql-bench.ts'
import { readJsonRows } from '../harness/mysql-rows.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

const absence = findAbsence()
if (absence !== null) console.log(`types in mysql are not tested: ${absence}`)

describe('the mysql destination', { skip: absence !== null }, () => {
  let m: MysqlBench
  before(async () => {
    if (absence === null) m = await openMysqlBench()
  })
  after(() => m?.close())

  describe('with typed rows', () => {
    let p: PostgresBench
    before(async () => {
      if (absence === null) p = await openPostgresBench()
    })
    after(() => p?.close())
    const copy = (table: string, sync: Partial<Sync> = {}, config: object = {}): Job =>
      m.bench.job({
        source: { name: 'postgres', stream: `public.${table}`, config: p.config },
        destination: { name: 'mysql', config: { ...m.config, ...config } },
        sync,
      })

    it('keeps every type of PostgreSQL', async () => {
      await p.query(`CREATE TABLE typed (id int8 PRIMARY KEY, ok boolean, s int2, f real, g float8, n numeric, money numeric(10,2), t text, b bytea, d date, clock time, at timestamp,
        z timestamptz, u uuid, j jsonb, l text[], i interval, nan float8);
        INSERT INTO typed VALUES (1, true, -5, 0.1, 1e300, 12345678901234567890.123456789, 9.99, E'tab\\t nl\\n bs\\\\ ff\\f vt\\x0b q'' \\u00e9', '\\x00ff5c0a', '2024-02-29', '10:11:12.5',
          '0001-01-01 00:00:00', '2024-01-01 10:00:00.123456+02', '9f0c3d2e-0000-4000-8000-000000000000', '{"a": 12345678901234567890.5}', '{"a b",NULL,"q\\""}', '1 day -02:00:00', 'NaN'),
          (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`)
      for (const write of ['append', 'replace'] as const) {
        await m.sql('DROP TABLE IF EXISTS typed')
        await m.bench.run(copy('typed', { write }))
        const [first, second] = (await readJsonRows(m.server, m.database, 'typed')).map(
          (row) => JSON.parse(row) as Record<string, unknown>,
        )
        assert.deepEqual(
          { ...first, n: String(first!.n) },
          {
            id: 1,
            ok: true,
            s: -5,
            f: 0.1,
            g: 1e300,
            n: '12345678901234567000',
            money: 9.99,
            t: "tab\t nl\n bs\\ ff\f vt\v q' é",
            b: '\\x00ff5c0a',
            d: '2024-02-29',
            clock: '10:11:12.500000',
            at: '0001-01-01 00:00:00.000000',
            z: '2024-01-01T08:00:00.123456Z',
            u: '9f0c3d2e-0000-4000-8000-000000000000',
            j: { a: Number('12345678901234567890.5') },
            l: ['a b', null, 'q"'],
            i: '1 day -02:00:00',
            nan: 'NaN',
          },
        )
        assert.deepEqual(await m.sql('SELECT n FROM typed WHERE id = 1'), [
          '12345678901234567890.123456789000000000000000000000',
        ])
        assert.equal(Object.values(second!).filter((value) => value !== null).length, 1)
      }
    })

    it('gives an incremental read straight to the table, and merges where it is told', async () => {
      await p.query(
        "CREATE TABLE moving (id int8 PRIMARY KEY, v text); INSERT INTO moving SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g",
      )
      for (const write of ['append', 'upsert'] as const) {
        await m.sql('DROP TABLE IF EXISTS moving')
        const job = copy('moving', {
          mode: 'incremental',
          cursor_field: 'id',
          write,
          primary_key: write === 'upsert' ? ['id'] : [],
        })
        const outcome = await m.bench.run(job, { checkpointRecords: 3000 })
        await p.query(`INSERT INTO moving SELECT coalesce(max(id), 0) + 1, 'new' FROM moving`)
        await m.bench.run(m.bench.next(job, outcome))
        const [expected] = await p.query<{ count: string }>('SELECT count(*) AS count FROM moving')
        assert.deepEqual(await m.sql('SELECT count(*), count(DISTINCT id) FROM moving'), [
          `${expected!.count}\t${expected!.count}`,
        ])
      }
    })
  })

  it('gives MySQL back what it read from MySQL', async () => {
    await m.sql(`CREATE TABLE round (id bigint unsigned PRIMARY KEY, s mediumint unsigned, c varchar(20), at datetime(3), stamp timestamp(6) NULL, clock time(6), raw varbinary(5), j json, b bit(3));
      INSERT INTO round VALUES (18446744073709551615, 16777215, 'é', '2024-01-01 00:00:00.123', '2024-01-01', '-838:59:59', X'00FF', '{"a": 1}', b'101')`)
    await m.bench.run(
      m.bench.job({
        source: { name: 'mysql', stream: 'round', config: m.config },
        destination: { name: 'mysql', config: { ...m.config, table: 'round_trip' } },
      }),
    )
    assert.deepEqual(
      await m.sql('SELECT id, s, c, at, stamp, clock, HEX(raw), j, b FROM round_trip'),
      await m.sql('SELECT id, s, c, at, stamp, clock, HEX(raw), j, b + 0 FROM round'),
    )
    const types = await m.sql(
      "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'round_trip' ORDER BY ORDINAL_POSITION",
    )
    assert.deepEqual(types, [
      'bigint(20) unsigned',
      'mediumint(8) unsigned',
      'varchar(20)',
      'datetime(3)',
      'timestamp(6)',
      'time(6)',
      'varbinary(5)',
      'longtext',
      'bigint(20)',
    ])
  })
})

describe('a server without local_infile', { skip: absence !== null }, () => {
  let server: MariadbServer
  let m: MysqlBench
  before(async () => {
    if (absence !== null) return
    server = await startServer({ local_infile: 'OFF' })
    m = await openMysqlBench()
  })
  after(async () => {
    await m?.close()
    await server?.stop()
  })

  it('gets the rows by INSERT, and the log says so', async () => {
    const database = await server.createDatabase()
    const { host, port, user, password } = server
    const config = { host, port, user, password, database, table: 'inserted', tls: { mode: 'disable' } }
    const rows = ['{"id":1,"t":"it\'s \\\\ \\n a \\"tab\\t\\" \\f","b":true}', '{"id":2,"t":null,"b":false}']
    const attempt = m.bench.start(m.bench.job({ source: lineSource(rows), destination: { name: 'mysql', config } }))
    await attempt.done
    assert.ok(attempt.log.some((line) => /local_infile is off/.test(line)))
    const found = await readJsonRows(server, database, 'inserted')
    assert.deepEqual(
      found.map((row) => JSON.parse(row)),
      rows.map((row) => JSON.parse(row)),
    )
  })
  it('gets typed rows with the same values as by LOAD DATA', async () => {
    const database = await server.createDatabase()
    await server.sql(
      `CREATE TABLE typed (id bigint unsigned PRIMARY KEY, raw varbinary(20), empty blob, t text, d decimal(40,20), at timestamp(6) NULL, clock time(6), f double, j json);
       INSERT INTO typed VALUES (18446744073709551615, X'00275C0AFF', '', X'69742773205C20090A0D0C0B080020C3A9', 12345678901234567890.12345678901234567890,
           '2024-01-01 10:00:00.123456', '-838:59:59', 0.1, '{"a": 1}'),
         (1, NULL, NULL, X'5C4E', NULL, NULL, NULL, NULL, NULL)`,
      database,
    )
    const { host, port, user, password } = server
    const config = { host, port, user, password, database, tls: { mode: 'disable' } }
    for (const write of ['append', 'replace'] as const) {
      const destination = { name: 'mysql', config: { ...config, table: `typed_${write}` } }
      await m.bench.run(
        m.bench.job({ source: { name: 'mysql', stream: 'typed', config }, destination, sync: { write } }),
      )
      const values = 'SELECT id, HEX(raw), HEX(empty), HEX(t), d, at, clock, f, j FROM'
      assert.deepEqual(
        await server.sql(`${values} typed_${write} ORDER BY id`, database),
        await server.sql(`${values} typed ORDER BY id`, database),
      )
    }
  })
})

it('lists become JSON with the same items', () => {
  assert.equal(listToJson('{1,NULL,"b \\"c\\\\",{2.50,x},""}'), '[1,null,"b \\"c\\\\",[2.50,"x"],""]')
  assert.equal(listToJson('{}'), '[]')
})
