/**
 * Rows in binary form between two PostgreSQL tables. The server takes eight bytes for an int8 or for a time without
 * noticing, so what matters most is when the form is not used.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { ColumnChoice, Sync } from '../../src/connectors/contract.ts'
import type { Job } from '../../src/engine/execute.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'
import type { AttemptOptions } from '../harness/run-bench.ts'

let postgres: PostgresBench
before(async () => {
  postgres = await openPostgresBench()
})
after(() => postgres.close())

interface Copied {
  from: string
  to: string
  sync?: Partial<Sync>
  columns?: ColumnChoice
  keep_output?: boolean
  config?: Record<string, unknown>
}

function copyJob({ from, to, sync = {}, columns = {}, keep_output = false, config = {} }: Copied): Job {
  const { bench, config: place } = postgres
  const source = { name: 'postgres', stream: from, config: { ...place, ...config } }
  const destination = { name: 'postgres', config: { ...place, schema: 'copied', table: to } }
  return bench.job({ source, destination, sync }, { columns, keep_output })
}

const isBinary = (log: readonly string[]): boolean => log.some((line) => line.includes('travel in binary form'))

/** Runs a job; returns whether its rows travelled in binary form. */
async function copy(job: Job, options: AttemptOptions = {}): Promise<boolean> {
  const attempt = postgres.bench.start(job, options)
  await attempt.done
  return isBinary(attempt.log)
}

async function assertSame(from: string, to: string): Promise<void> {
  const rows = (table: string) => postgres.query<{ row: string }>(`SELECT t::text AS row FROM ${table} AS t ORDER BY 1`)
  assert.deepEqual(await rows(to), await rows(from))
}

const every = {
  a_boolean: ['boolean', 'true', 'false'],
  a_int2: ['int2', '-32768', '32767'],
  a_int4: ['int4', '-2147483648', '0'],
  a_int8: ['int8', '-9223372036854775808', '9223372036854775807'],
  a_numeric: ['numeric', "'NaN'", '-0.000000000000000000000000000012345678901234567890', '1e300'],
  a_price: ['numeric(12,3)', '123456789.125', '-0.001'],
  a_float4: ['float4', "'-Infinity'", '1.17549435e-38', "'-0'"],
  a_float8: ['float8', "'NaN'", '0.1', '1.7976931348623157e308'],
  a_text: ['text', "E'tab\\t line\\n back\\\\slash \\\\N \\\\.'", "''", "'\u{1F9A6} \u4e2d'"],
  a_varchar: ['varchar(20)', "'twenty characters !!'", "''"],
  a_any_varchar: ['varchar', "'no length'", "''"],
  a_char: ['char(5)', "'ab'", "'abcde'"],
  a_bytea: ['bytea', "'\\x00ff0a5c'", "''"],
  a_date: ['date', "'0044-03-15 BC'", "'infinity'", "'2024-02-29'"],
  a_time: ['time', "'24:00:00'", "'00:00:00.000001'"],
  a_short_time: ['time(2)', "'12:34:56.78'"],
  a_timetz: ['timetz', "'12:00:00+05:30'", "'23:59:59.999999-11'"],
  a_timestamp: ['timestamp', "'4713-01-01 00:00:00 BC'", "'infinity'", "'1999-12-31 23:59:59.999999'"],
  a_timestamptz: ['timestamptz', "'-infinity'", "'2024-02-29 12:00:00+05:30'", "'0001-01-01 00:00:00Z'"],
  a_seconds: ['timestamptz(0)', "'2024-02-29 12:00:00Z'"],
  a_interval: ['interval', "'-1 year 2 mons -3 days 04:05:06.7'", "'0'"],
  a_days: ['interval day to second(3)', "'5 days 04:05:06.789'"],
  a_uuid: ['uuid', "'00000000-0000-4000-8000-0000000000aa'"],
  a_json: ['json', `E'{"a" :\\n[1, 2.50] ,"a":null}'`, `'"text"'`],
  a_jsonb: ['jsonb', `'{"a":[1,{"b":null}],"big":12345678901234567890.12345}'`, "'[]'"],
  a_inet: ['inet', "'10.0.0.1/8'", "'::1'"],
  a_cidr: ['cidr', "'10.0.0.0/8'", "'2001:db8::/32'"],
  a_macaddr: ['macaddr', "'08:00:2b:01:02:03'"],
  a_macaddr8: ['macaddr8', "'08:00:2b:01:02:03:04:05'"],
  a_bit: ['bit(5)', "B'10101'"],
  a_varbit: ['bit varying(9)', "B'1'", "B''"],
  many_ints: ['int4[]', "'{1,NULL,3}'", "'{}'", "'[2:3]={7,8}'", "'{{1,2},{3,4}}'"],
  many_texts: ['text[]', `'{"a b",NULL,"","\\\\"}'`],
  many_varchars: ['varchar[]', "'{a,b}'"],
  many_prices: ['numeric(6,2)[]', "'{1.25,NULL}'"],
  many_times: ['timestamptz[]', "'{2024-01-01Z,infinity}'"],
  many_json: ['jsonb[]', `'{"{\\"a\\":1}"}'`],
} satisfies Record<string, [string, ...string[]]>

async function createEvery(table: string): Promise<void> {
  const columns = Object.entries(every).map(([name, [type]]) => `${name} ${type}`)
  await postgres.query(`CREATE TABLE ${table} (id int4 PRIMARY KEY, ${columns.join(', ')})`)
  const most = Math.max(...Object.values(every).map((values) => values.length))
  for (let row = 1; row <= most; row += 1) {
    const values = Object.values(every).map(([type, ...all]) => (all[row - 1] ? `(${all[row - 1]})::${type}` : 'NULL'))
    await postgres.query(`INSERT INTO ${table} VALUES (${row}, ${values.join(', ')})`)
  }
}

describe('rows in binary form', () => {
  it('keep every value of every type that travels so', async () => {
    await createEvery('every_type')
    assert.ok(await copy(copyJob({ from: 'public.every_type', to: 'every_type' })))
    await assertSame('public.every_type', 'copied.every_type')
    const incremental = { mode: 'incremental', cursor_field: 'id' } as const
    for (const write of ['append', 'upsert'] as const) {
      const to = `every_${write}`
      const sync = { ...incremental, write, primary_key: write === 'upsert' ? ['id'] : [] }
      assert.ok(await copy(copyJob({ from: 'public.every_type', to, sync })))
      await assertSame('public.every_type', `copied.${to}`)
    }
  })

  it('are as many as text would be, in a table that several sessions read', async () => {
    await postgres.query(
      `CREATE TABLE large AS SELECT n, repeat(md5(n::text), 20) AS t FROM generate_series(1, 110000) AS n`,
    )
    const attempt = postgres.bench.start(copyJob({ from: 'public.large', to: 'large', config: { parallel: 3 } }))
    const { records_written, bytes_written } = await attempt.done
    assert.equal(records_written, 110_000)
    // Although their memory is given back as soon as they are sent.
    assert.ok(bytes_written > 110_000 * 640, `${bytes_written} bytes`)
    assert.ok(isBinary(attempt.log))
    const [left] = await postgres.query<{ count: string }>(
      'SELECT count(*) FROM (TABLE copied.large EXCEPT ALL TABLE public.large) AS t',
    )
    assert.equal(left!.count, '0')
  })

  it('are read by cursor: ties, rows without a value, what came since, selected and hashed columns', async () => {
    await postgres.query(`CREATE TABLE events (id int8 PRIMARY KEY, at timestamptz, secret text, note varchar)`)
    const add = (from: number, to: number, at: string) =>
      postgres.query(`INSERT INTO events SELECT n, ${at}, 's' || n, NULL FROM generate_series(${from}, ${to}) AS n`)
    await add(1, 5, 'NULL')
    await add(6, 40, `'2024-01-01Z'`)
    const sync = { mode: 'incremental', cursor_field: 'at', write: 'append' } as const
    const columns = { exclude: ['note'], hash: ['secret'], rename: { at: 'happened' } }
    const first = copyJob({ from: 'public.events', to: 'events', sync, columns })
    const begun = postgres.bench.start(first)
    const outcome = await begun.done
    assert.ok(isBinary(begun.log))
    await add(41, 50, `'2024-01-01Z'`)
    await add(51, 60, `'2024-01-02Z'`)
    const second = await postgres.bench.run(postgres.bench.next(first, outcome))
    assert.equal(second.records_read, 20)
    await assertSame(`(SELECT id, at, encode(sha256(convert_to(secret, 'UTF8')), 'hex') FROM events)`, 'copied.events')
  })

  it('can be empty', async () => {
    await postgres.query('CREATE TABLE nothing (n int4)')
    assert.ok(await copy(copyJob({ from: 'public.nothing', to: 'nothing' })))
    await assertSame('public.nothing', 'copied.nothing')
  })

  it('survive a crash at every point of an incremental read', async () => {
    // Some dozen rows to a page, so that there are three checkpoints.
    await postgres.query(
      `CREATE TABLE steps AS SELECT n, n / 7 AS tie, repeat(md5(n::text), 600) AS pad FROM generate_series(1, 40) AS n`,
    )
    const sync = { mode: 'incremental', cursor_field: 'tie', write: 'append' } as const
    const begin = (to: string) => copyJob({ from: 'public.steps', to, sync })
    const small = { checkpointRecords: 1 }
    const whole = postgres.bench.start(begin('steps'), small)
    await whole.done
    assert.equal(whole.commits, 3)
    const points = new Set(
      whole.points.filter((point) => /^postgres\.(checkpoint|open|publish)|^write:after/.test(point)),
    )
    for (const [at, point] of [...points].entries()) {
      const doomed = begin(`steps_${at}`)
      const nth = point.includes('checkpoint') || point.startsWith('write') ? 2 : 1
      assert.ok(await postgres.bench.crash(doomed, point, nth, small), point)
      const outcome = await postgres.bench.run(postgres.bench.again(doomed), small)
      assert.equal(outcome.records_written, 40, point)
      await assertSame('public.steps', `copied.steps_${at}`)
    }
  })
})

describe('rows stay text', () => {
  const simple = `CREATE TABLE simple AS SELECT n AS id, 'name ' || n AS name FROM generate_series(1::int8, 20) AS n`
  before(async () => {
    await postgres.query('CREATE SCHEMA IF NOT EXISTS copied')
    await postgres.query(simple)
  })

  it('if an output is kept', async () => {
    assert.equal(await copy(copyJob({ from: 'public.simple', to: 'kept', keep_output: true })), false)
    await assertSame('public.simple', 'copied.kept')
  })

  const types = {
    enum: [`CREATE TYPE mood AS ENUM ('sad', 'ok')`, `'ok'::mood`, true],
    'enum[]': ['', `ARRAY['ok']::mood[]`, true],
    domain: ['CREATE DOMAIN positive AS int4 CHECK (VALUE > 0)', '5::positive', true],
    'domain[]': ['', 'ARRAY[5]::positive[]', true],
    composite: ['CREATE TYPE pair AS (a int4, b text)', `ROW(1, 'x')::pair`, true],
    money: ['', `'12.50'::money`, true],
    xml: ['', `'<a/>'::xml`, false],
    range: ['', `'[1,5)'::int4range`, false],
    point: ['', `'(1,2)'::point`, false],
    tsvector: ['', `'a b'::tsvector`, false],
  } satisfies Record<string, [string, string, boolean]>
  for (const [name, [prepare, value, becomesBuiltIn]] of Object.entries(types)) {
    it(`or become a built-in type on the way: ${name}`, async () => {
      if (prepare) await postgres.query(prepare)
      const table = `of_${name.replace(/\W/g, '_s')}`
      await postgres.query(`CREATE TABLE ${table} AS SELECT 1 AS id, ${value} AS v`)
      assert.equal(await copy(copyJob({ from: `public.${table}`, to: `${table}_text`, keep_output: true })), false)
      assert.equal(await copy(copyJob({ from: `public.${table}`, to: table })), becomesBuiltIn)
      await assertSame(`copied.${table}_text`, `copied.${table}`)
    })
  }

  const others = {
    'a time where the source has a number': 'id timestamptz, name text',
    'a number of another size': 'id int4, name text',
    'text where the source has a number': 'id text, name text',
    'a length that the source does not have': 'id int8, name varchar(50)',
    'a domain': 'id whole, name text',
    'an enum': 'id int8, name names',
    'a generated column': 'id int8, name text GENERATED ALWAYS AS (id::text) STORED',
  }
  for (const [at, [what, columns]] of Object.entries(others).entries()) {
    it(`if the table has ${what}`, async () => {
      if (at === 0) {
        await postgres.query('CREATE DOMAIN whole AS int8')
        await postgres.query(`CREATE TYPE names AS ENUM (${Array.from({ length: 20 }, (_, n) => `'name ${n + 1}'`)})`)
      }
      for (const write of ['append', 'replace'] as const) {
        const to = `other_${at}_${write}`
        await postgres.query(`CREATE TABLE copied.${to} (${columns})`)
        const attempt = postgres.bench.start(copyJob({ from: 'public.simple', to, sync: { write } }))
        await attempt.done
        assert.equal(isBinary(attempt.log), false)
        const rows = await postgres.query<{ id: string }>(`SELECT id::text FROM copied.${to}`)
        assert.deepEqual(
          new Set(rows.map(({ id }) => id)),
          new Set(Array.from({ length: 20 }, (_, n) => String(n + 1))),
        )
      }
    })
  }

  it('if rows go into a view', async () => {
    await postgres.query(`CREATE TABLE copied.behind (id int8, name text);
      CREATE VIEW copied.front AS SELECT * FROM copied.behind;
      CREATE FUNCTION copied.put() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO copied.behind VALUES (NEW.*); RETURN NEW; END $$;
      CREATE TRIGGER put INSTEAD OF INSERT ON copied.front FOR EACH ROW EXECUTE FUNCTION copied.put()`)
    const sync = { mode: 'incremental', cursor_field: 'id', write: 'append' } as const
    assert.equal(await copy(copyJob({ from: 'public.simple', to: 'front', sync })), false)
    await assertSame('public.simple', 'copied.behind')
  })
})

it('counts no row that a trigger drops', async () => {
  await postgres.query(`CREATE TABLE copied.dropping (id int8, name text);
    CREATE FUNCTION copied.drop_odd() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF NEW.id % 2 = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$;
    CREATE TRIGGER drop_odd BEFORE INSERT ON copied.dropping FOR EACH ROW EXECUTE FUNCTION copied.drop_odd()`)
  const sync = { mode: 'incremental', cursor_field: 'id', write: 'append' } as const
  assert.ok(await copy(copyJob({ from: 'public.simple', to: 'dropping', sync })))
  await assertSame('(SELECT * FROM public.simple WHERE id % 2 = 0)', 'copied.dropping')
})

it('sends text if refused rows go into the quarantine', async () => {
  const sync = { on_error: 'quarantine' } as const
  assert.equal(await copy(copyJob({ from: 'public.simple', to: 'quarantined', sync })), false)
  await assertSame('public.simple', 'copied.quarantined')
})

it('takes a varchar without a length for text, in binary form', async () => {
  await postgres.query('CREATE TABLE copied.loose (id int8, name varchar)')
  assert.ok(await copy(copyJob({ from: 'public.simple', to: 'loose' })))
  await assertSame('public.simple', 'copied.loose')
})

it('never copies binary rows into a column that another session has changed in the meantime', async () => {
  const sync = { mode: 'incremental', cursor_field: 'id', write: 'append' } as const
  for (const point of ['postgres.open.after', 'postgres.checkpoint.before']) {
    const to = `changed_${point.replace(/\W/g, '_')}`
    const doomed = copyJob({ from: 'public.simple', to, sync })
    await postgres.query(`CREATE TABLE copied.${to} (id int8, name text)`)
    const attempt = postgres.bench.start(doomed, {
      async fault(passed) {
        if (passed !== point) return
        await postgres.query(
          `ALTER TABLE copied.${to} ALTER COLUMN id TYPE timestamptz USING to_timestamp(id::float8 / 1000000)`,
        )
      },
    })
    await assert.rejects(attempt.done, /Another session changed column id .*; the run begins again/)
    assert.ok(isBinary(attempt.log))
    const [rows] = await postgres.query<{ count: string }>(`SELECT count(*) FROM copied.${to}`)
    assert.equal(rows!.count, '0')
    await postgres.query(`ALTER TABLE copied.${to} ALTER COLUMN id TYPE text`)
    assert.equal(await copy(postgres.bench.again(doomed)), false, 'the next attempt sends text')
    const after = await postgres.query(
      `SELECT count(*)::int4 AS rows, count(DISTINCT id)::int4 AS ids FROM copied.${to}`,
    )
    assert.deepEqual(after, [{ rows: 20, ids: 20 }])
  }
})
