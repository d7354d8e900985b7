/** The claim: one statement that neither a frozen client nor stale statistics can spoil. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, test } from 'node:test'
import { type Queryable, script, sql } from '../../src/database/database.ts'
import { NIL_UUID } from '../../src/database/lists.ts'
import { type Claim, claim, loadClaimed } from '../../src/runs/claim.ts'
import { type RunLease, saveProgress } from '../../src/runs/finish.ts'
import { renewLeases } from '../../src/runs/leases.ts'
import { finishSuccess } from '../../src/runs/success.ts'
import { SECRET } from '../harness/app.ts'
import { claimRuns } from '../harness/claims.ts'
import { countPagesOf } from '../harness/count-pages.ts'
import { startDatabaseProxy } from '../harness/database-proxy.ts'
import { startEngine } from '../harness/engine.ts'
import { environment, makeDataDir, runSluice } from '../harness/service.ts'

const engine = await startEngine({ RUN_LEASE_SECONDS: '3' })
const { db } = engine.services
const outcome = { output: null, cursor: null, records_read: 1, records_written: 1, bytes_written: 1 }
const request = (free: number, after = NIL_UUID) => ({
  worker: 'test',
  free,
  perOrganization: 4,
  leaseSeconds: 60,
  after,
})

test('a freed slot is filled by the statement that ends its run', async () => {
  const pipeline = await engine.createPipeline({})
  await engine.trigger(pipeline)
  const second = await engine.trigger(pipeline)
  const [first] = await claimRuns(db, 'test', request(1))
  const taken: Claim[] = []
  const next = { request: request(1), take: (claimed: Claim) => void taken.push(claimed), lost: () => {} }
  assert.ok(await finishSuccess(db, first!, { outcome, incremental: false, log: null, next }))
  assert.deepEqual(
    taken.map(({ run_ids, attempts, busy }) => ({ run_ids, attempts, busy })),
    [{ run_ids: [second], attempts: [1], busy: false }],
  )
  assert.equal((await engine.run(second)).status, 'running')
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status <> 'success'`)
})

test('a claim skips a run or pipeline that is locked, and reports that it was busy', async () => {
  const [locked, free] = [await engine.createPipeline({}), await engine.createPipeline({})]
  const run = await engine.trigger(locked)
  const other = await engine.trigger(free)
  await db.transaction(async (tx) => {
    await tx.execute(sql`SELECT 1 FROM pipelines WHERE id = ${locked} FOR UPDATE`)
    assert.deepEqual((await claim(db, request(2))).run_ids, [other])
    const nothing = await claim(db, request(1))
    assert.deepEqual([nothing.run_ids, nothing.busy], [[], true])
  })
  const claimed = await claim(db, request(1))
  assert.deepEqual(claimed.run_ids, [run])
  assert.deepEqual((await claim(db, request(1))).busy, false)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status <> 'success'`)
})

test('an organization with room is found behind hundreds that have none', async () => {
  await db.execute(sql`
    WITH o AS (INSERT INTO organizations (name, slug) SELECT 'crowd', 'crowd-' || n FROM generate_series(1, 300) n RETURNING id),
    p AS (INSERT INTO pipelines (organization_id, name, config_box, stream) SELECT o.id, 'p', '', 's' FROM o CROSS JOIN generate_series(1, 5) RETURNING id, organization_id)
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, config_box, status)
    SELECT organization_id, id, 'manual', true, '', CASE WHEN row_number() OVER (PARTITION BY organization_id) <= 4 THEN 'running' ELSE 'pending' END FROM p`)
  const run = await engine.trigger(await engine.createPipeline({}))
  const [{ organization_id } = { organization_id: '' }] = await db.query<{ organization_id: string }>(
    sql`SELECT organization_id FROM runs WHERE id = ${run}`,
  )
  // From right behind it, so that all others come first.
  assert.deepEqual((await claim(db, request(1, organization_id))).run_ids, [run])
  await db.execute(sql`DELETE FROM organizations WHERE name = 'crowd'`)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status <> 'success'`)
})

test('a worker that freezes in the middle of a claim blocks no one', async () => {
  const proxy = await startDatabaseProxy(engine.connection)
  const folder = makeDataDir()
  after(() => rmSync(folder, { recursive: true, force: true }))
  const taken = await engine.trigger(await engine.createPipeline({}))
  const frozen = Promise.withResolvers<void>()
  const { child, ended } = runSluice(
    ['worker'],
    environment(folder, {
      DATABASE_URL: proxy.url,
      JWT_SECRET_KEY: SECRET,
      ENCRYPTION_KEY: SECRET,
      RUN_LEASE_SECONDS: '3',
    }),
  )
  try {
    proxy.whenSees('claim', () => {
      child.kill('SIGSTOP')
      frozen.resolve()
    })
    await frozen.promise
    const worker = await engine.work()
    const began = performance.now()
    const run = await engine.trigger(await engine.createPipeline({}))
    await engine.until(run, ({ status }) => status !== 'pending')
    assert.ok(performance.now() - began < 10_000, 'the other worker claims at once')
    assert.equal((await engine.finished(run)).status, 'success')
    assert.equal((await engine.finished(taken)).status, 'success', 'what the frozen one had is taken over')
    await worker.stop(AbortSignal.abort())
  } finally {
    child.kill('SIGKILL')
    await ended
    await proxy.close()
  }
})

test('a claim reads little, whatever the statistics say', async () => {
  // Statistics from a time when the queue was empty.
  await db.execute(script('ALTER TABLE runs SET (autovacuum_enabled = off)'))
  await db.execute(script('VACUUM ANALYZE runs'))
  await db.transaction(async (tx) => {
    await tx.execute(script('SET LOCAL session_replication_role = replica'))
    await tx.execute(sql`
      INSERT INTO pipelines (id, organization_id, name, config_box, stream)
      SELECT lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n % 400 + 1), 32, 'a')::uuid, 'p', '\\x00', 's' FROM generate_series(1, 20000) n`)
    await tx.execute(sql`
      INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready) SELECT organization_id, id, 'manual', true FROM pipelines WHERE name = 'p'`)
  })
  const stale = await countBuffers()
  await db.execute(script('ANALYZE runs'))
  const fresh = await countBuffers()
  assert.ok(stale < 6000 && fresh < 6000, `${stale} pages with old statistics, ${fresh} with new ones`)
})

test('runs that a worker holds are found by their keys, however many are running', async () => {
  await db.execute(sql`UPDATE runs SET status = 'running', worker = 'many', attempt = 1 WHERE status = 'pending'`)
  const held = await db.query<RunLease>(sql`
    SELECT id, organization_id, pipeline_id, seq, attempt, worker FROM runs WHERE status = 'running' AND worker = 'many' ORDER BY seq LIMIT 8`)
  assert.equal(held.length, 8)
  const row = (one: RunLease) => ({ ...one, records_read: 0, records_written: 0, bytes_written: 0, line_count: 0 })
  const statements = {
    load: (db: Queryable) =>
      loadClaimed(db, {
        run_ids: held.map(({ id }) => id),
        attempts: held.map(() => 1),
        busy: false,
        next_after: NIL_UUID,
      }),
    renew: (db: Queryable) => renewLeases(db, held, 60),
    progress: (db: Queryable) => saveProgress(db, held.map(row)),
    end: (db: Queryable) => finishSuccess(db, held[0]!, { outcome, incremental: false, log: null }),
  }
  for (const [name, act] of Object.entries(statements)) {
    const { pages } = await countPagesOf(db)<unknown>(act)
    assert.ok(pages < 800, `${name}: ${pages} pages`)
  }
})

/** The number of pages that one claim reads. */
async function countBuffers(): Promise<number> {
  const explain = script(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM claim_runs('test', 8, 4, 60, '${NIL_UUID}'::uuid)`,
  )
  // The first one also reads the catalog.
  await db.control.first(explain)
  const row = await db.control.first<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }>(explain)
  const { Plan } = row!['QUERY PLAN'][0]!
  return Plan['Shared Hit Blocks']! + Plan['Shared Read Blocks']!
}
