/** Rows that an incremental read could miss for ever: they commit late, have no value, or sort in an order of their own. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Sync } from '../../src/connectors/contract.ts'
import type { Outcome } from '../../src/engine/execute.ts'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

describe('an incremental read of postgres', { timeout: 120_000 }, () => {
  let p: PostgresBench
  let writer: pg.Client
  before(async () => {
    p = await openPostgresBench()
    writer = await p.server.connect(p.database)
  })
  after(() => p?.close())

  const sync = (cursor_field: string): Partial<Sync> => ({ mode: 'incremental', write: 'append', cursor_field })
  const ids = async (outcome: Outcome) =>
    (await p.records(outcome)).map(({ id }) => Number(id)).sort((one, other) => one - other)

  /** Until the read has looked at the writers and found one. */
  async function untilItWaits(): Promise<void> {
    const waits = `SELECT FROM pg_stat_activity WHERE application_name = 'sluice source' AND datname = current_database()`
    while ((await p.query(waits)).length === 0) await delay(5)
    const polls = `${waits} AND query LIKE '%ANY($1::text[]) AND locktype%'`
    while ((await p.query(polls)).length === 0) await delay(1)
  }

  /** The writer has 1 and does not commit; 2 is there. Then 1 commits, and 3 comes after the bound was fixed. */
  async function assertWaits(stream: string, field: string, table: string, config: Record<string, unknown> = {}) {
    await writer.query('BEGIN')
    await writer.query(`INSERT INTO ${table} DEFAULT VALUES`)
    await p.query(`INSERT INTO ${table} DEFAULT VALUES`)
    const first = p.read(stream, sync(field), config)
    const attempt = p.bench.start(first)
    await untilItWaits()
    await p.query(`INSERT INTO ${table} DEFAULT VALUES`)
    await writer.query('COMMIT')
    const outcome = await attempt.done
    assert.deepEqual(await ids(outcome), [1, 2], 'all up to the bound, whatever came after it')
    assert.ok(!attempt.log.some((line) => line.startsWith('warn')), attempt.log.join('\n'))
    assert.deepEqual(await ids(await p.bench.run(p.bench.next(first, outcome))), [3])
  }

  it('waits for transactions that took a lower number', async () => {
    await p.query('CREATE TABLE numbered (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)')
    await assertWaits('public.numbered', 'id', 'numbered')
  })

  it('waits for transactions that took an earlier time', async () => {
    await p.query('CREATE TABLE timed (id serial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())')
    await assertWaits('public.timed', 'at', 'timed')
  })

  it('waits for the writers of a view, of a query and of a partitioned table', async () => {
    await p.query(`CREATE TABLE base (id serial); CREATE VIEW seen AS SELECT id, 'x' AS x FROM base WHERE id > 0;
      CREATE TABLE asked (id serial);
      CREATE TABLE whole (id serial) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (100)`)
    await assertWaits('public.seen', 'id', 'base')
    await assertWaits('mine', 'id', 'asked', {
      queries: { mine: 'SELECT a.id FROM asked a JOIN (SELECT 1) b ON true' },
    })
    await assertWaits('public.whole', 'id', 'whole')
  })

  it('loses no row among many writers that commit in any order', async () => {
    await p.query('CREATE TABLE busy (id serial PRIMARY KEY)')
    const clients = await Promise.all([1, 2, 3, 4].map(() => p.server.connect(p.database)))
    let open = true
    const writing = clients.map(async (client, at) => {
      while (open) {
        await client.query('BEGIN; INSERT INTO busy DEFAULT VALUES')
        await delay(at * 7)
        await client.query('COMMIT')
      }
    })
    const read: number[] = []
    let job = p.read('public.busy', sync('id'))
    for (let run = 0; run < 8; run += 1) {
      if (run === 7) {
        open = false
        await Promise.all(writing)
      }
      const outcome = await p.bench.run(job)
      read.push(...(await ids(outcome)))
      job = p.bench.next(job, outcome)
    }
    const all = await p.query('SELECT id FROM busy ORDER BY id')
    assert.deepEqual(
      read,
      all.map(({ id }) => id),
    )
  })

  it('gives up after a time, and says which rows could be missed', async () => {
    await p.query('CREATE TABLE stuck (id serial PRIMARY KEY)')
    await writer.query('BEGIN; INSERT INTO stuck DEFAULT VALUES')
    await p.query('INSERT INTO stuck DEFAULT VALUES')
    const attempt = p.bench.start(p.read('public.stuck', sync('id'), { wait_for_writers_seconds: 1 }))
    assert.deepEqual(await ids(await attempt.done), [2])
    await writer.query('COMMIT')
    assert.ok(
      attempt.log.some((line) =>
        /^warn A transaction has .* within 1 seconds.* with id up to 2 will not be/.test(line),
      ),
      attempt.log.join('\n'),
    )
  })

  it('does not wait for who writes elsewhere, only reads, or where it is told not to', async () => {
    await p.query('CREATE TABLE quiet (id serial PRIMARY KEY); CREATE TABLE elsewhere (id serial)')
    await p.query('INSERT INTO quiet DEFAULT VALUES')
    await writer.query('BEGIN; INSERT INTO elsewhere DEFAULT VALUES; SELECT * FROM quiet')
    const attempt = p.bench.start(p.read('public.quiet', sync('id'), { wait_for_writers_seconds: 1 }))
    assert.deepEqual(await ids(await attempt.done), [1])
    assert.ok(!attempt.log.some((line) => line.startsWith('warn')))
    await writer.query('INSERT INTO quiet DEFAULT VALUES')
    const careless = p.bench.start(p.read('public.quiet', sync('id'), { wait_for_writers_seconds: 0 }))
    assert.deepEqual(await ids(await careless.done), [1])
    await writer.query('COMMIT')
  })

  it('says so where it may not look at locks', async () => {
    await p.query(`CREATE TABLE unseen (id serial); INSERT INTO unseen DEFAULT VALUES;
      CREATE ROLE blind LOGIN PASSWORD 'blind-pw'; GRANT SELECT ON unseen TO blind; REVOKE SELECT ON pg_locks FROM PUBLIC`)
    const attempt = p.bench.start(p.read('public.unseen', sync('id'), { user: 'blind', password: 'blind-pw' }))
    assert.deepEqual(await ids(await attempt.done), [1])
    assert.ok(
      attempt.log.some((line) => /^warn The role may not read pg_locks/.test(line)),
      attempt.log.join('\n'),
    )
    await p.query('GRANT SELECT ON pg_locks TO PUBLIC')
  })

  it('counts rows without a value that came after the first run', async () => {
    await p.query(
      `CREATE TABLE holes (id int8 PRIMARY KEY, at timestamptz); INSERT INTO holes VALUES (1, NULL), (2, now())`,
    )
    const first = p.read('public.holes', sync('at'))
    const one = await p.bench.run(first)
    assert.deepEqual(await ids(one), [1, 2])
    const warnings = async (job: typeof first) => {
      const attempt = p.bench.start(job)
      const outcome = await attempt.done
      return { outcome, lines: attempt.log.filter((line) => line.startsWith('warn')) }
    }
    const second = p.bench.next(first, one)
    const two = await warnings(second)
    assert.deepEqual(two.lines, [], 'those of the first run were read')
    await p.query('INSERT INTO holes VALUES (3, NULL), (4, NULL), (5, now())')
    const third = p.bench.next(second, two.outcome)
    const three = await warnings(third)
    assert.deepEqual(await ids(three.outcome), [5])
    assert.equal(three.lines.length, 1)
    assert.match(three.lines[0]!, /^warn 2 more rows have no value in at/)
    const four = await warnings(p.bench.next(third, three.outcome))
    assert.match(four.lines[0]!, /^warn 2 more rows/, 'the number is kept from run to run')
    const set = await warnings({ ...first, state: { seq: 1, cursor: { cursor: '2000-01-01' }, fingerprint: null } })
    assert.match(set.lines[0]!, /^warn 3 rows have no value in at. Those that came after the first run/)
  })

  it('warns of a text as a cursor', async () => {
    await p.query(`CREATE TABLE texts (id int4, t varchar(9)); INSERT INTO texts VALUES (9, '9'), (10, '10')`)
    const attempt = p.bench.start(p.read('public.texts', sync('t')))
    assert.deepEqual(await ids(await attempt.done), [9, 10])
    assert.ok(attempt.log.some((line) => /^warn .*cursor_field t is text: .*10 sorts before 9/.test(line)))
  })
})
