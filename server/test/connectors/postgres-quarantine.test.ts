/** Which records PostgreSQL refuses, and what is known about each. That each is kept exactly once is in the conformance suite. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Sync } from '../../src/connectors/contract.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

const quarantine: Partial<Sync> = { write: 'append', on_error: 'quarantine', max_error_share: 1 }

describe('the quarantine of postgres', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  const refusedBy = async (outcome: Outcome): Promise<{ record: Record<string, unknown>; reason: string }[]> =>
    (await p.bench.readParts(outcome.quarantine ?? []))
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  const load = async (table: string, lines: readonly object[], sync: Partial<Sync> = {}, resumable = true) => {
    const texts = lines.map((line) => JSON.stringify(line))
    return refusedBy(await p.bench.run(p.load(table, texts, { ...quarantine, ...sync }, { resumable })))
  }
  const ids = async (table: string) =>
    (await p.query<{ id: number }>(`SELECT id::int4 AS id FROM ${table} ORDER BY id`)).map(({ id }) => id)

  it('names the reason: not null, a check, a foreign key, an enum, a duplicate', async () => {
    await p.query(`CREATE TYPE size AS ENUM ('s', 'm'); CREATE TABLE shops (id int8 PRIMARY KEY); INSERT INTO shops VALUES (1);
      CREATE TABLE strict (id int8 PRIMARY KEY, code varchar(3), shop int8 REFERENCES shops, size size, day date NOT NULL, price numeric(4,2) CHECK (price > 0));
      INSERT INTO strict VALUES (100, 'x', 1, 's', '2024-01-01', 1)`)
    const good = { id: 1, code: 'abc', shop: 1, size: 's', day: '2024-01-01', price: 1.5 }
    const bad: [object, RegExp][] = [
      [{ id: 3, shop: 9 }, /foreign key constraint.*Key \(shop\)=\(9\) is not present.*SQLSTATE 23503/],
      [{ id: 4, size: 'xl' }, /invalid input value for enum (public\.)?size: "xl".*SQLSTATE 22P02/],
      [{ id: 5, day: null }, /null value in column "day".*SQLSTATE 23502/],
      [{ id: 6, price: -1 }, /violates check constraint "strict_price_check".*SQLSTATE 23514/],
      [{ id: 100 }, /duplicate key value violates unique constraint "strict_pkey".*SQLSTATE 23505/],
    ]
    const lines = [good, ...bad.map(([change]) => ({ ...good, ...change })), { ...good, id: 2 }]
    const refused = await load('strict', lines)
    assert.deepEqual(await ids('strict'), [1, 2, 100])
    assert.deepEqual(
      refused.map(({ record }) => record),
      bad.map(([change]) => ({ ...good, ...change })),
    )
    for (const [at, [, reason]] of bad.entries()) assert.match(refused[at]!.reason, reason)
  })

  it('refuses rows of a table too, typed as they are, with every kind of value', async () => {
    await p.query(`CREATE TABLE wide (id int8 PRIMARY KEY, n numeric, t text, b bytea, at timestamptz, j json, l int8[], f float8, ok boolean);
      INSERT INTO wide SELECT g, 0.1234567890123456789, E'a\\tb\\\\c', '\\x00ff', '2024-02-29 12:00+05:30', '{"a": [1,\n 2]}', '{1,NULL}', 'NaN', g % 2 = 0 FROM generate_series(1, 50) g;
      CREATE TABLE narrow (LIKE wide, CHECK (id NOT IN (7, 8)))`)
    const job: Job = p.bench.job({
      source: { name: 'postgres', stream: 'public.wide', config: p.config },
      destination: { name: 'postgres', config: { ...p.config, table: 'narrow' } },
      sync: quarantine,
    })
    const outcome = await p.bench.run(job)
    assert.equal(outcome.records_written, 48)
    assert.equal((await ids('narrow')).length, 48)
    const [seven, eight] = await refusedBy(outcome)
    assert.deepEqual(seven!.record, {
      id: 7,
      n: Number('0.1234567890123456789'),
      t: 'a\tb\\c',
      b: '\\x00ff',
      at: '2024-02-29T06:30:00+00:00',
      j: { a: [1, 2] },
      l: [1, null],
      f: 'NaN',
      ok: false,
    })
    assert.equal(eight!.record.id, 8)
    const line = (await p.bench.readParts(outcome.quarantine!)).toString().split('\n')[0]!
    assert.ok(line.includes('"n":0.1234567890123456789'), 'no digit is lost')
  })

  it('refuses records without a primary key, and merges the last good one of each', async () => {
    const refused = await load(
      'keyed',
      [{ id: 1, v: 'a' }, { v: 'nobody' }, { id: 2, v: 'b' }, { id: null, v: 'null' }, { id: 1, v: 'c' }],
      { write: 'upsert', primary_key: ['id'] },
    )
    assert.deepEqual(await p.query('SELECT id::int4, v FROM keyed ORDER BY id'), [
      { id: 1, v: 'c' },
      { id: 2, v: 'b' },
    ])
    assert.deepEqual(
      refused.map(({ record }) => record.v),
      ['nobody', 'null'],
    )
    assert.match(refused[0]!.reason, /no value in the primary key \(id\)/)
  })

  it('checks deferred constraints with each batch, so that the row is known', async () => {
    await p.query(`CREATE TABLE parents (id int8 PRIMARY KEY); INSERT INTO parents VALUES (1);
      CREATE TABLE children (id int8, parent int8 REFERENCES parents DEFERRABLE INITIALLY DEFERRED)`)
    const rows = Array.from({ length: 300 }, (_, at) => ({ id: at, parent: at === 123 ? 2 : 1 }))
    const refused = await load('children', rows)
    assert.deepEqual(
      refused.map(({ record }) => record),
      [{ id: 123, parent: 2 }],
    )
    assert.equal((await ids('children')).length, 299)
  })

  for (const resumable of [true, false])
    it(`replaces a table whose keys do not allow all rows (the source ${resumable ? 'can' : 'cannot'} resume)`, async () => {
      const table = `unique_${resumable}`
      await p.query(`CREATE TABLE ${table} (id int8 PRIMARY KEY, v text); INSERT INTO ${table} VALUES (900, 'old')`)
      const rows = Array.from({ length: 3000 }, (_, at) => ({ id: at === 2000 ? 5 : at, v: `v${at}` }))
      const refused = await load(table, rows, { write: 'replace' }, resumable)
      assert.deepEqual(
        refused.map(({ record }) => record),
        [{ id: 5, v: 'v2000' }],
      )
      assert.equal((await ids(table)).length, 2999)
    })

  it('replaces by key what other tables refer to, without the rows that are refused', async () => {
    await p.query(`CREATE TABLE items (id int8 PRIMARY KEY, v int8 CHECK (v < 10)); INSERT INTO items VALUES (1, 1), (2, 2), (9, 9);
      CREATE TABLE uses (item int8 REFERENCES items); INSERT INTO uses VALUES (1), (2)`)
    const rows = [
      { id: 1, v: 5 },
      { id: 2, v: 50 },
      { id: 3, v: 30 },
      { id: 4, v: 4 },
    ]
    const refused = await load('items', rows, { write: 'replace' }, false)
    assert.deepEqual(
      refused.map(({ record }) => record.id),
      [2, 3],
    )
    assert.deepEqual(await p.query('SELECT id::int4, v::int4 FROM items ORDER BY id'), [
      { id: 1, v: 5 },
      { id: 2, v: 2 },
      { id: 4, v: 4 },
    ])
  })

  it('fails after about a hundred records where all are refused, and keeps those', async () => {
    await p.query('CREATE TABLE nothing (id int8 CHECK (id < 0))')
    const rows = Array.from({ length: 20_000 }, (_, at) => `{"id":${at}}`)
    const job = p.load('nothing', rows, { write: 'append', on_error: 'quarantine' }, { pageRecords: 5000 })
    await assert.rejects(p.bench.run(job), (error: Error & { transient: boolean }) => {
      assert.match(error.message, /refused \d+ of [\d,]+ records, more than config\.sync\.max_error_share \(0\.01\)/)
      assert.match(error.message, /violates check constraint "nothing_id_check"/)
      assert.equal(error.transient, false)
      return true
    })
    assert.deepEqual(await ids('nothing'), [])
    const kept = p.bench.savedQuarantine(job).reduce((sum, { records }) => sum + records, 0)
    assert.ok(kept > 100 && kept <= 201, `${kept} records`)
  })

  it('does not take a missing right or a lost connection for a refused record', async () => {
    const { user } = p.server
    await p.query(`CREATE ROLE reads LOGIN PASSWORD 'reads'; GRANT ALL ON SCHEMA public TO reads;
      CREATE TABLE guarded (id int8); GRANT SELECT ON guarded TO reads`)
    assert.notEqual(user, 'reads')
    const job = p.load('guarded', ['{"id":1}'], quarantine)
    const limited = { ...job.destination.config, user: 'reads', password: 'reads', schema: 'public' }
    await assert.rejects(
      p.bench.run({ ...job, destination: { ...job.destination, config: limited } }),
      /permission denied/,
    )
    await p.query('CREATE TABLE cut (id int8)')
    const doomed = p.bench.start(p.load('cut', ['{"id":1}'], quarantine, { beforePage: () => undefined }), {
      fault: (point) => (point === 'postgres.checkpoint.copied' ? doomed.cut() : undefined),
    })
    await assert.rejects(doomed.done, /connection was lost/)
    assert.deepEqual(await ids('cut'), [])
  })

  it('leaves a change of schema that is not allowed a failure', async () => {
    await p.query('CREATE TABLE fixed (id int8)')
    await assert.rejects(load('fixed', [{ id: 1, more: 1 }], { schema_change: 'fail' }), /schema_change is fail/)
  })
})
