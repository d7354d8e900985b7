/**
 * Claiming: a worker with free slots takes ready runs. One claim at a time over all workers (an advisory lock held for a
 * millisecond or two) keeps the limit per organization exact. Organizations with waiting runs are found by hopping over
 * the index, so a tenant with ten thousand of them costs no more than one with a single one; slots go first to those
 * who have the fewest runs going.
 */

import type { Column } from '../connectors/contract.ts'
import { type Database, lockForTransaction, sql } from '../database/database.ts'
import type { Part } from '../engine/job.ts'
import type { Json } from '../json/json.ts'

export interface ClaimedRun {
  id: string
  organization_id: string
  pipeline_id: string
  seq: number
  attempt: number
  lost_attempts: number
  failed_attempts: number
  config_box: Buffer
  checkpoint: number
  cursor: Json
  parts: Part[]
  records_read: number
  records_written: number
  bytes_written: number
  pipeline_name: string
  state_seq: number | null
  state_cursor: Json
  schema_columns: Column[] | null
}

export interface ClaimLimits {
  free: number
  perOrganization: number
  leaseSeconds: number
}

export async function claimRuns(db: Database, worker: string, limits: ClaimLimits): Promise<ClaimedRun[]> {
  return db.transaction(async (tx) => {
    await lockForTransaction(tx, 'sluice claim')
    return tx.query<ClaimedRun>(sql`
      WITH RECURSIVE waiting AS (
        (SELECT organization_id FROM runs WHERE status = 'pending' AND ready ORDER BY organization_id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.organization_id FROM runs r WHERE r.status = 'pending' AND r.ready AND r.organization_id > w.organization_id
                 ORDER BY r.organization_id LIMIT 1)
          FROM waiting w WHERE w.organization_id IS NOT NULL
      ),
      active AS (SELECT organization_id, count(*) AS running FROM runs WHERE status = 'running' GROUP BY organization_id),
      candidates AS (
        SELECT c.id, c.seq, coalesce(a.running, 0) + row_number() OVER (PARTITION BY w.organization_id ORDER BY c.seq) AS turn
          FROM waiting w
          LEFT JOIN active a ON a.organization_id = w.organization_id
         CROSS JOIN LATERAL (
           SELECT r.id, r.seq FROM runs r
            WHERE r.organization_id = w.organization_id AND r.status = 'pending' AND r.ready AND r.available_at <= now()
            ORDER BY r.seq LIMIT greatest(0, ${limits.perOrganization} - coalesce(a.running, 0))) c
         WHERE w.organization_id IS NOT NULL
      ),
      chosen AS (SELECT id FROM candidates ORDER BY turn, seq LIMIT ${limits.free}),
      taken AS (
        UPDATE runs r SET status = 'running', attempt = r.attempt + 1, worker = ${worker}, started_at = coalesce(r.started_at, now()),
                          lease_until = now() + make_interval(secs => ${limits.leaseSeconds})
          FROM chosen c WHERE r.id = c.id AND r.status = 'pending'
        RETURNING r.*
      )
      SELECT t.id, t.organization_id, t.pipeline_id, t.seq, t.attempt, t.lost_attempts, t.failed_attempts, t.config_box, t.checkpoint, t.cursor,
             t.parts, t.records_read, t.records_written, t.bytes_written, p.name AS pipeline_name,
             s.seq AS state_seq, s.cursor AS state_cursor, c.columns AS schema_columns
        FROM taken t
        JOIN pipelines p ON p.id = t.pipeline_id
        LEFT JOIN pipeline_state s ON s.pipeline_id = t.pipeline_id
        LEFT JOIN pipeline_schemas c ON c.pipeline_id = t.pipeline_id
       ORDER BY t.seq`)
  })
}

/** When the next run that waits for its back-off may be taken, in milliseconds from now; null where none waits. */
export async function nextAvailableMs(db: Database): Promise<number | null> {
  const row = await db.first<{ ms: number | null }>(sql`
    SELECT (extract(epoch FROM min(available_at) - now()) * 1000)::float8 AS ms FROM runs WHERE status = 'pending' AND ready AND available_at > now()`)
  return row?.ms ?? null
}
