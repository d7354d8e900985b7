/** Sources that take their time: nothing may stay open or locked in the destination while they do. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Sync } from '../../src/connectors/contract.ts'
import { plainRows } from '../harness/conformance.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

const bulk = 'x'.repeat(20_000)
/** Rows of 20 KB; the later half has a field of its own, and a number that needs another type. */
const rows = (count: number) =>
  Array.from({ length: count }, (_, at) =>
    at < count / 2
      ? `{"id":${at},"n":${at},"bulk":"${bulk}"}`
      : `{"id":${at},"n":${at}.5,"bulk":"${bulk}","late":true}`,
  )

const syncs: Record<string, Partial<Sync>> = {
  append: { write: 'append' },
  upsert: { write: 'upsert', primary_key: ['id'] },
  replace: { write: 'replace' },
}

describe('a slow source', () => {
  let p: PostgresBench
  let other: pg.Client
  before(async () => {
    p = await openPostgresBench()
    other = await p.server.connect(p.database)
    await other.query("SET lock_timeout = '500ms'")
  })
  after(() => p?.close())

  const countOf = async (table: string) => (await p.query(`SELECT count(*)::int4 AS n FROM ${table}`))[0]!.n

  for (const [name, sync] of Object.entries(syncs)) {
    it(`${name}: that rarely has a cursor keeps no transaction open, and locks nobody out`, {
      timeout: 60_000,
    }, async () => {
      const table = `rare_${name}`
      await p.query(`CREATE TABLE ${table} (id int8 ${name === 'upsert' ? 'PRIMARY KEY' : ''}, n int8, bulk text)`)
      await p.query(`INSERT INTO ${table} VALUES (-1, 0, 'old')`)
      let looks = 0
      const look = async (given: number) => {
        if (given < 100) return
        looks += 1
        // What came is on its way; then there is nothing to do but to wait for this source.
        const began = performance.now()
        while (await openTransactions()) await delay(10)
        assert.ok(performance.now() - began < 4000, `after ${given} records`)
        await other.query(`SELECT count(*) FROM ${table}`)
        await other.query(`INSERT INTO ${table} (id) VALUES ($1)`, [-1000 - looks])
      }
      // 400 rows of 20 KB are 8 MB: more than is held in memory. The only cursor comes with the last page.
      const job = p.load(table, rows(400), sync, { pageRecords: 50, cursorEvery: 8, beforePage: look })
      const attempt = p.bench.start(job)
      await attempt.done
      assert.ok(looks > 3)
      assert.ok(attempt.points.includes('postgres.spill.committed'), 'more came than memory holds')
      const ids = await p.query(`SELECT id FROM ${table} WHERE id >= 0 ORDER BY id`)
      assert.deepEqual(
        ids.map(({ id }) => Number(id)),
        Array.from({ length: 400 }, (_, at) => at),
      )
      assert.equal((await p.query(`SELECT n::text FROM ${table} WHERE id = 399`))[0]!.n, '399.5')
      assert.equal((await ownTables()).length, 0)
    })
  }

  /** Of ours, apart from those of the moment: what is between two statements ends at once. */
  async function openTransactions(): Promise<number> {
    const [row] = await p.query(
      `SELECT count(*)::int4 AS n FROM pg_stat_activity WHERE application_name LIKE 'sluice %' AND datname = current_database()
       AND xact_start IS NOT NULL`,
    )
    return row!.n as number
  }

  const ownTables = () =>
    p.query("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^_sluice_[sb]_' ORDER BY 1")

  for (const resumable of [true, false]) {
    it(`that stops in the middle of a checkpoint ends its transaction within seconds (${resumable ? 'with' : 'without'} cursors)`, {
      timeout: 60_000,
    }, async () => {
      const table = `stopped_${resumable}`
      let longest = 0
      const stop = async (given: number) => {
        // The transaction has begun, for a megabyte came at once; now the source thinks for longer than it may last.
        if (given !== 100) return
        while (!(await openTransactions())) await delay(5)
        const began = performance.now()
        while (await openTransactions()) await delay(50)
        longest = performance.now() - began
      }
      const job = p.load(table, rows(200), { write: 'append' }, { pageRecords: 50, resumable, beforePage: stop })
      const outcome = await p.bench.run(job)
      assert.equal(outcome.records_written, 200)
      assert.ok(longest > 1000 && longest < 9000, `it was open for ${longest} ms`)
      assert.equal(await countOf(table), 200)
    })
  }

  it('locks nobody out where a column came while its transaction was open', { timeout: 60_000 }, async () => {
    await p.query("CREATE TABLE came_late (id int8, n numeric, bulk text); INSERT INTO came_late VALUES (-1, 0, 'old')")
    const stop = async (given: number) => {
      if (given === 100) while (!(await openTransactions())) await delay(5)
      if (given !== 150) return
      do {
        await other.query('SELECT count(*) FROM came_late')
        await other.query('INSERT INTO came_late (id) VALUES (-2)')
      } while (await openTransactions())
    }
    const lines = rows(200)
    const source = { pageRecords: 50, beforePage: stop }
    await p.bench.run(p.load('came_late', lines, { write: 'append' }, source))
    assert.equal((await p.query('SELECT FROM came_late WHERE late AND id >= 100')).length, 100)
    assert.equal((await p.query('SELECT FROM came_late WHERE id >= 0')).length, 200)
  })

  it('waits for a reader of the table without making others wait behind it', { timeout: 60_000 }, async () => {
    await p.query('CREATE TABLE read_long (id int8); INSERT INTO read_long VALUES (0)')
    const reader = await p.server.connect(p.database)
    await reader.query('BEGIN; SELECT * FROM read_long')
    const run = p.bench.run(p.load('read_long', plainRows(10), { write: 'append' }))
    // While ALTER TABLE waits nobody gets past it; it must give way again and again.
    const waits = `SELECT FROM pg_locks WHERE relation = 'read_long'::regclass AND NOT granted`
    while ((await p.query(waits)).length === 0) await delay(5)
    await p.client.query("SET statement_timeout = '3s'")
    for (let turn = 0; turn < 3; turn += 1) await p.query('SELECT count(*) FROM read_long')
    await p.client.query('SET statement_timeout = 0')
    await reader.query('COMMIT')
    await run
    assert.equal(await countOf('read_long'), 11)
  })

  it('leaves a table that is as it was, with one column more, when it dies right after the change', async () => {
    const first = p.load('changed', ['{"id":1}'], { write: 'append' })
    await p.bench.run(first)
    const second = p.follow(first, ['{"id":2,"more":1}'])
    assert.ok(await p.bench.crash(second, 'postgres.change.after', 1))
    assertSameRows(await readRows('changed'), ['{"id":1,"more":null}'])
    await p.bench.run(p.bench.again(second))
    assertSameRows(await readRows('changed'), ['{"id":1,"more":null}', '{"id":2,"more":1}'])
  })

  const readRows = async (table: string) =>
    (await p.query(`SELECT row_to_json(t)::text AS row FROM ${table} AS t`)).map(({ row }) => row as string)

  it('fails, and is read again, where the rows it spilled are gone', async () => {
    const source = { pageRecords: 5, cursorEvery: 4 }
    const options = { checkpointRecords: 10, holdBytes: 1 }
    const job = p.load('emptied', plainRows(20), { write: 'append' }, source)
    let emptied = false
    const attempt = p.bench.start(job, {
      ...options,
      async fault(point) {
        if (point !== 'postgres.spill.committed' || emptied) return
        emptied = true
        const [spill] = await ownTables()
        await p.query(`TRUNCATE ${spill!.relname}`)
      },
    })
    await assert.rejects(attempt.done, /rows of this checkpoint/)
    assert.equal((await ownTables()).length, 0, 'what it spilled went with it')
    await p.bench.run(p.bench.again(job), options)
    assertSameRows(await readRows('emptied'), plainRows(20))
  })

  it('leaves what a lost attempt spilled to the next one to drop, and never what another one still fills', async () => {
    const source = { pageRecords: 5, cursorEvery: 4 }
    const options = { checkpointRecords: 10, holdBytes: 1 }
    const lost = p.load('lost', plainRows(20), { write: 'append' }, source)
    assert.ok(await p.bench.crash(lost, 'postgres.spill.committed', 1, options))
    const [left] = await ownTables()
    await p.bench.run(p.load('unrelated', plainRows(5), { write: 'append' }))
    assert.deepEqual(await ownTables(), [left], 'as far as anybody knows its attempt goes on')
    await p.bench.run(p.bench.again(lost), options)
    assert.deepEqual(await ownTables(), [])
    assertSameRows(await readRows('lost'), plainRows(20))
  })
})
