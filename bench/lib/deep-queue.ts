/** The time of a claim with many ready runs of many organizations. */
import { type Database, script, sql } from '../../server/src/database/database.ts'
import { NIL_UUID } from '../../server/src/database/lists.ts'
import { claim } from '../../server/src/runs/claim.ts'
import { percentile, report } from './figures.ts'
import type { BenchDatabase } from './many-workers.ts'

const CLAIMS = 50

export const measureDeepQueue =
  (runs: number, organizations: number) =>
  async ({ db }: BenchDatabase): Promise<void> => {
    await fill(db, runs, organizations)
    const deep = `${runs} ready runs of ${organizations} organizations`
    await measure(db, `${deep}, statistics of an empty queue`, 'p50 < 20 ms')
    await db.execute(script('ANALYZE'))
    await measure(db, `${deep}, after ANALYZE`, 'p50 < 20 ms')
  }

async function fill(db: Database, runs: number, organizations: number): Promise<void> {
  await db.execute(script('ALTER TABLE runs SET (autovacuum_enabled = off)'))
  await db.transaction(async (tx) => {
    await tx.execute(script('SET LOCAL session_replication_role = replica'))
    await tx.execute(
      sql`INSERT INTO organizations (name, slug) SELECT 'o', 'o' || n FROM generate_series(1, ${organizations}) n`,
    )
    await tx.execute(sql`
      INSERT INTO pipelines (organization_id, name, config_box, stream)
      SELECT o.id, 'p', '\\x00', 's' FROM organizations o CROSS JOIN generate_series(1, ${Math.ceil(runs / organizations)})`)
    await tx.execute(sql`
      INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, started_at, finished_at)
      SELECT organization_id, id, 'manual', true, 'success', now(), now() FROM pipelines`)
  })
  // Statistics from an empty queue; then everything at once.
  await db.execute(script('VACUUM ANALYZE'))
  await measure(db, 'nothing waits', 'p50 < 5 ms')
  await db.transaction(async (tx) => {
    await tx.execute(script('SET LOCAL session_replication_role = replica'))
    await tx.execute(sql`
      INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, config_box)
      SELECT organization_id, id, 'manual', true, decode(repeat('ab', 500), 'hex') FROM pipelines ORDER BY random()`)
  })
}

async function measure(db: Database, what: string, promise: string): Promise<void> {
  const times: number[] = []
  let after = NIL_UUID
  for (let index = 0; index < CLAIMS; index++) {
    const began = performance.now()
    const claimed = await claim(db.control, { worker: 'bench', free: 8, perOrganization: 4, leaseSeconds: 600, after })
    times.push(performance.now() - began)
    after = claimed.next_after
  }
  report(
    `claim of eight runs, ${what}`,
    { p50_ms: percentile(times, 50), p95_ms: percentile(times, 95), worst_ms: Math.max(...times) },
    promise,
  )
}
