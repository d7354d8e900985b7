/**
 * What stays fast with many runs: how many pages a query reads, with the statistics that PostgreSQL collects by itself.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findReadableOutputs } from '../../src/connections/readable-outputs.ts'
import { type Queryable, type Statement, script, sql } from '../../src/database/database.ts'
import { readActivity } from '../../src/runs/activity.ts'
import { nextAvailableMs } from '../../src/runs/claim.ts'
import { packLogs } from '../../src/runs/log-packing.ts'
import { listRuns, type RunFilters } from '../../src/runs/organization-runs.ts'
import { recoverLostRuns } from '../../src/runs/recover.ts'
import { findQuotaFault } from '../../src/runs/storage-quota.ts'
import { readTimeline } from '../../src/runs/timeline.ts'
import type { WorkerServices } from '../../src/runs/worker-services.ts'
import type { Actor } from '../../src/tenancy/actor.ts'
import { countPagesOf } from '../harness/count-pages.ts'
import { cloneDatabase } from '../harness/database.ts'

const RUNS = 200_000
const database = await cloneDatabase()
test.after(() => database.drop())
const { db } = database
const countPages = countPagesOf(db)
const organization = '00000000-0000-4000-8000-000000000001'
const pipeline = '00000000-0000-4000-8000-0000000000a1'
const small = '00000000-0000-4000-8000-0000000000d1'
const large = '00000000-0000-4000-8000-0000000000d2'
const actor = { organization_id: organization, scope: null } as unknown as Actor
await fill()

test('sessions plan with real statistics', async () => {
  assert.deepEqual(await db.first(sql`SHOW enable_seqscan`), { enable_seqscan: 'on' })
})

const page = { limit: 50, offset: 0 }
const old = '2026-01-02T00:00:00Z'
const filters: Record<string, Partial<RunFilters>> = {
  'no filter': {},
  'a rare status': { status: 'failed' },
  'a common status': { status: 'success' },
  'a pipeline': { pipeline_id: pipeline },
  'a pipeline and a status': { pipeline_id: pipeline, status: 'failed' },
  'a rare trigger': { triggered_by: 'manual' },
  'a common trigger': { triggered_by: 'schedule' },
  'a period long ago': { since: '2026-01-01T00:00:00Z', until: old },
  'a period and a status': { status: 'failed', until: old },
  'a small domain': { domain_id: small },
  'a small domain and a status': { domain_id: small, status: 'failed' },
  'a small domain and a rare trigger': { domain_id: small, triggered_by: 'manual' },
  'a small domain and a period': { domain_id: small, since: '2026-01-01T00:00:00Z', until: '2026-02-01T00:00:00Z' },
  'a large domain': { domain_id: large },
  'a large domain and a status': { domain_id: large, status: 'failed' },
}
for (const [name, filter] of Object.entries(filters))
  test(`runs of an organization by ${name} read few pages`, async () => {
    const { result, pages } = await countPages((db) => listRuns(db, actor, { ...page, ...filter }))
    assert.ok(result.rows.length > 0)
    // The total is counted to ten thousand, through the index.
    assert.ok(pages < 25_000, `${pages} pages`)
    const [first, second] = result.rows
    const { result: next, pages: more } = await countPages((db) =>
      listRuns(db, actor, { ...page, ...filter, before: first!.id }),
    )
    assert.equal(next.rows[0]?.id, second?.id, 'the next page goes on where the first ended')
    assert.ok(more < 25_000, `${more} pages`)
  })

test('the timeline does not read runs of the past', async () => {
  await db.execute(sql`
    INSERT INTO pipeline_activity (pipeline_id, organization_id, created_at, last_run_status, last_run_at)
    SELECT id, organization_id, created_at, CASE WHEN id = ${pipeline} THEN 'failed' ELSE 'success' END, now() FROM pipelines`)
  const { result, pages } = await countPages((db) => readTimeline(db, actor, 50))
  assert.equal(result.pipelines.length, 50)
  assert.equal(result.pipelines[0]!.id, pipeline)
  assert.ok(pages < 5000, `${pages} pages`)
})

test('the last runs of many pipelines read a few pages for each', async () => {
  const ids = (
    await db.query<{ id: string }>(sql`SELECT id FROM pipelines WHERE organization_id = ${organization} LIMIT 100`)
  ).map(({ id }) => id)
  const { result, pages } = await countPages((db) => readActivity(db, actor, { ids, runs: 20 }))
  assert.equal(result.length, ids.length)
  assert.ok(pages < ids.length * 60, `${pages} pages for ${ids.length} pipelines`)
})

test('a list is planned for its organization every time, never once for an average one', async () => {
  const statements: Statement[] = []
  const noting =
    <T>(run: (statement: Statement) => T) =>
    (statement: Statement) => {
      statements.push(statement)
      return run(statement)
    }
  const every: RunFilters = { ...page, domain_id: small, include_counts: true }
  await listRuns(
    { query: noting(db.query), first: noting(db.first), execute: noting(db.execute) } as Queryable,
    actor,
    every,
  )
  await listRuns(
    { query: noting(db.query), first: noting(db.first), execute: noting(db.execute) } as Queryable,
    actor,
    page,
  )
  assert.ok(statements.length > 4)
  // Only a named statement is prepared, and after five executions PostgreSQL may keep a plan for any value.
  for (const { name, text } of statements) assert.equal(name, '', text)
})

test('the runs of each status are counted to ten thousand, through an index', async () => {
  for (const [filter, failed] of [
    [{}, 1000],
    [{ status: 'success' }, 1000],
    [{ pipeline_id: pipeline }, 500],
    [{ until: old }, 7],
  ] as const) {
    const { result, pages } = await countPages((db) =>
      listRuns(db, actor, { ...page, ...filter, include_counts: true }),
    )
    const { counts } = result
    assert.equal(counts?.failed, failed, JSON.stringify(counts))
    assert.ok(counts.success <= 10_000)
    assert.deepEqual([counts.pending, counts.running, counts.cancelled], [0, 0, 0])
    assert.ok(pages < 50_000, `${pages} pages`)
  }
  const plain = await listRuns(db, actor, page)
  assert.equal(plain.counts, undefined)
})

test('a page far down costs as much as the first', async () => {
  const middle = await db.first<{ id: string }>(
    sql`SELECT id FROM runs WHERE organization_id = ${organization} ORDER BY created_at OFFSET 5000 LIMIT 1`,
  )
  const rows = await countPages((db) =>
    listRuns(onlyRows(db), actor, { ...page, before: middle!.id }).then(({ rows }) => rows),
  )
  assert.equal(rows.result.length, 50)
  assert.ok(rows.pages < 500, `${rows.pages} pages`)
})

const RUN = { organization_id: organization } as never
const questions: Record<string, (db: Queryable) => Promise<unknown>> = {
  'the output of a run by its id': (db) =>
    findReadableOutputs(db, organization, ['00000000-0000-4000-8000-00000000ffff']),
  'what an organization stores': (db) =>
    findQuotaFault({ db: { control: db }, config: { ORG_STORAGE_GB: 1 } } as unknown as WorkerServices, RUN, []),
  'the next back-off': nextAvailableMs,
  'lost runs': (queryable) => recoverLostRuns({ ...db.control, ...queryable }, 0),
  'logs to pack': (db) => packLogs(db, database as never, assert.fail),
}
for (const [name, ask] of Object.entries(questions))
  test(`${name}: a few pages`, async () => {
    const { pages } = await countPages(ask)
    assert.ok(pages < 100, `${pages} pages`)
  })

test('renewals and progress write no index', async () => {
  await db.execute(sql`
    UPDATE runs SET status = 'running', finished_at = NULL, lease_until = now()
     WHERE id = (SELECT id FROM runs WHERE organization_id = ${organization} LIMIT 1)`)
  await db.transaction(async (tx) => {
    const read = async () =>
      (await tx.first<{ updates: number; hot: number }>(sql`
        SELECT pg_stat_get_xact_tuples_updated(oid) AS updates, pg_stat_get_xact_tuples_hot_updated(oid) AS hot FROM pg_class WHERE relname = 'runs'`))!
    const before = await read()
    for (let index = 0; index < 20; index++) {
      await tx.execute(sql`UPDATE runs SET lease_until = clock_timestamp() WHERE status = 'running'`)
      await tx.execute(sql`UPDATE runs SET records_read = records_read + 1 WHERE status = 'running'`)
    }
    const after = await read()
    assert.equal(after.updates - before.updates, 40)
    // If a page is full the row moves once; then it stays.
    assert.ok(after.hot - before.hot >= 36, `${after.hot - before.hot} of 40 stayed on their page`)
  })
})

/** Replaces counts by a constant. */
const onlyRows = (queryable: Queryable): Queryable => ({
  ...queryable,
  first: async <Row>(statement: Statement) =>
    statement.text.includes('count(*)') ? ({ total: 0 } as Row) : queryable.first<Row>(statement),
})

/** Half of the runs belong to one organization; one in a hundred failed, one in five hundred was triggered manually. */
async function fill(): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.execute(script('SET LOCAL session_replication_role = replica'))
    const own = sql`CASE WHEN n % 2 = 0 THEN 1 ELSE n % 100 + 2 END`
    await tx.execute(sql`
      INSERT INTO pipelines (id, organization_id, name, config_box, stream)
      SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ('00000000-0000-4000-8000-' || lpad(to_hex(${own}), 12, '0'))::uuid, 'p', '\\x00', 's'
        FROM generate_series(0, 1000) n`)
    await tx.execute(sql`UPDATE pipelines SET organization_id = ${organization} WHERE id = ${pipeline}`)
    await tx.execute(sql`
      UPDATE pipelines SET domain_id = CASE WHEN id = ${pipeline} THEN ${small}::uuid ELSE ${large}::uuid END WHERE organization_id = ${organization}`)
    await tx.execute(sql`
      INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, created_at, started_at, finished_at, output_file_size)
      SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(${own}), 12, '0'))::uuid,
             CASE WHEN n % 400 = 0 THEN ${pipeline}::uuid ELSE ('00000000-0000-4000-8000-' || lpad(to_hex(n % 500 * 2), 12, '0'))::uuid END,
             CASE WHEN n % 1000 = 0 THEN 'manual' ELSE 'schedule' END, true, CASE WHEN n % 200 = 0 THEN 'failed' ELSE 'success' END, at, at, at, 1
        FROM (SELECT n, timestamptz '2026-01-01' + n * interval '1 minute' AS at FROM generate_series(1, ${RUNS}) n) x`)
  })
  await db.execute(script('VACUUM ANALYZE'))
}
