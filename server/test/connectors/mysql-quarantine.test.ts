/** Which records MySQL refuses, and what is known about each. That each is kept exactly once is in the conformance suite. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Source, Sync } from '../../src/connectors/contract.ts'
import type { Outcome } from '../../src/engine/execute.ts'
import { lineSource } from '../harness/line-source.ts'
import { findAbsence } from '../harness/mariadb-server.ts'
import { type MysqlBench, openMysqlBench } from '../harness/mysql-bench.ts'

const absence = findAbsence()
if (absence !== null) console.log(`the quarantine of mysql is not tested: ${absence}`)

describe('the quarantine of mysql', { skip: absence !== null }, () => {
  let m: MysqlBench
  before(async () => {
    if (absence === null) m = await openMysqlBench()
  })
  after(() => m?.close())

  const refusedBy = async (outcome: Outcome): Promise<{ record: Record<string, unknown>; reason: string }[]> =>
    (await m.bench.readParts(outcome.quarantine ?? []))
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  const load = async (table: string, source: Source, sync: Partial<Sync> = {}) =>
    refusedBy(
      await m.bench.run(
        m.bench.job({
          source,
          destination: { name: 'mysql', config: { ...m.config, table } },
          sync: { write: 'append', on_error: 'quarantine', max_error_share: 1, ...sync },
        }),
      ),
    )
  const lines = (records: readonly object[], resumable = true) =>
    lineSource(
      records.map((record) => JSON.stringify(record)),
      { resumable },
    )

  for (const resumable of [true, false])
    it(`names the reason: a duplicate, not null, a foreign key, a check (the source ${resumable ? 'can' : 'cannot'} resume)`, async () => {
      const table = `strict_${resumable}`
      await m.sql(`CREATE TABLE shops_${resumable} (id bigint PRIMARY KEY) ENGINE=InnoDB; INSERT INTO shops_${resumable} VALUES (1);
        CREATE TABLE ${table} (id bigint PRIMARY KEY, shop bigint, day date NOT NULL, ok tinyint(1) COMMENT 'sluice:boolean', price decimal(10,2) CHECK (price > 0),
          FOREIGN KEY (shop) REFERENCES shops_${resumable} (id)) ENGINE=InnoDB; INSERT INTO ${table} VALUES (100, 1, '2024-01-01', 1, 1)`)
      const good = { id: 1, shop: 1, day: '2024-01-01', ok: true, price: 1.5 }
      const bad: [object, RegExp][] = [
        [{ id: 3, shop: 9 }, /foreign key constraint fails.*error 1452/],
        [{ id: 4, day: null }, /cannot be null.*error 1048/],
        [{ id: 5, price: -1 }, /CONSTRAINT.*failed.*error 4025/],
        [{ id: 100 }, /Duplicate entry '100'.*error 1062/],
      ]
      const all = [good, ...bad.map(([change]) => ({ ...good, ...change })), { ...good, id: 2 }]
      const refused = await load(table, lines(all, resumable))
      assert.deepEqual(await m.sql(`SELECT id FROM ${table} ORDER BY id`), ['1', '2', '100'])
      assert.deepEqual(
        refused.map(({ record }) => record),
        bad.map(([change]) => ({ ...good, ...change })),
      )
      for (const [at, [, reason]] of bad.entries()) assert.match(refused[at]!.reason, reason)
    })

  it('refuses what no type of MySQL holds, and records without a primary key', async () => {
    await m.sql(`CREATE TABLE times (id bigint PRIMARY KEY, at datetime(6) COMMENT 'sluice:timestamptz') ENGINE=InnoDB`)
    const records = [
      { id: 1, at: '2024-01-01T00:00:00Z' },
      { id: null, at: '2024-01-01T00:00:00Z' },
      { id: 2, at: '2024-01-02T00:00:00+02:00' },
    ]
    const refused = await load('times', lines(records), { write: 'upsert', primary_key: ['id'] })
    assert.deepEqual(await m.sql('SELECT id FROM times ORDER BY id'), ['1', '2'])
    assert.deepEqual(
      refused.map(({ record, reason }) => [record.id, record.at, /no value in the primary key \(id\)/.test(reason)]),
      [[null, '2024-01-01T00:00:00.000000+00:00', true]],
    )
  })

  it('replaces a table whose keys do not allow all rows', async () => {
    for (const resumable of [true, false]) {
      const table = `keyed_${resumable}`
      await m.sql(
        `CREATE TABLE ${table} (id bigint PRIMARY KEY, v varchar(10)) ENGINE=InnoDB; INSERT INTO ${table} VALUES (900, 'old')`,
      )
      const records = Array.from({ length: 300 }, (_, at) => ({ id: at === 200 ? 5 : at, v: `v${at}` }))
      const refused = await load(table, lines(records, resumable), { write: 'replace' })
      assert.deepEqual(
        refused.map(({ record }) => record),
        [{ id: 5, v: 'v200' }],
      )
      assert.deepEqual(await m.sql(`SELECT count(*), max(id) FROM ${table}`), ['299\t299'])
    }
  })
})
