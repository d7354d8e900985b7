/**
 * Claiming: a worker with free slots takes ready runs. The claim is one statement, the function `claim_runs` (migration
 * 0120 explains how it finds organizations, shares slots fairly and keeps the limit per organization exact). It returns
 * only ids, so that its locks are never held by a worker that is slow to read; the rest is read afterwards.
 */

import type { Column } from '../connectors/contract.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { Part } from '../engine/job.ts'
import type { Json } from '../json/json.ts'
import { isRunning } from './states.ts'

export interface ClaimedRun {
  id: string
  organization_id: string
  pipeline_id: string
  seq: number
  attempt: number
  worker: string
  /** Which installation of the platform this is. */
  installation: string
  failed_attempts: number
  config_box: Buffer
  checkpoint: number
  cursor: Json
  parts: Part[]
  quarantine_parts: Part[] | null
  pipeline_name: string
  state_seq: number | null
  state_cursor: Json
  state_fingerprint: Json
  schema_columns: Column[] | null
  schema_fingerprint: Json
}

export interface ClaimRequest {
  worker: string
  free: number
  perOrganization: number
  leaseSeconds: number
  /** The organization after which the search starts: `next_after` of the previous claim. */
  after: string
  /** The class of runs that this worker takes; '' by default: what is shared. */
  podClass?: string | undefined
}

export interface Claim {
  run_ids: string[]
  attempts: number[]
  /** Runs are waiting, but other workers were claiming at the same moment: ask again soon. */
  busy: boolean
  next_after: string
}

export async function claim(
  db: Queryable,
  { worker, free, perOrganization, leaseSeconds, after, podClass = '' }: ClaimRequest,
): Promise<Claim> {
  const row = await db.first<Claim>(
    sql`SELECT * FROM claim_runs(${worker}, ${free}, ${perOrganization}, ${leaseSeconds}, ${after}, ${podClass})`,
  )
  return row!
}

/** What the executors need for claimed runs. Runs cancelled since are missing. */
export const loadClaimed = (db: Queryable, { run_ids, attempts }: Claim): Promise<ClaimedRun[]> =>
  db.query<ClaimedRun>(sql`
    SELECT r.id, r.organization_id, r.pipeline_id, r.seq, r.attempt, r.worker, (SELECT i.id FROM installation i) AS installation, r.failed_attempts, r.config_box, r.checkpoint, r.cursor,
           r.parts, r.quarantine_parts, p.name AS pipeline_name,
           s.seq AS state_seq, s.cursor AS state_cursor, s.fingerprint AS state_fingerprint,
           c.columns AS schema_columns, c.fingerprint AS schema_fingerprint
      FROM unnest(${run_ids}::uuid[], ${attempts}::int[]) AS u (id, attempt)
      JOIN runs r ON r.id = u.id AND r.attempt = u.attempt AND ${isRunning('r')}
      JOIN pipelines p ON p.id = r.pipeline_id
      LEFT JOIN pipeline_state s ON s.pipeline_id = r.pipeline_id
      LEFT JOIN pipeline_schemas c ON c.pipeline_id = r.pipeline_id
     ORDER BY r.seq`)

/** When the next run in back-off becomes ready, in milliseconds from now; null if none is waiting. */
export async function nextAvailableMs(db: Queryable): Promise<number | null> {
  const row = await db.first<{ ms: number }>(sql`
    SELECT (extract(epoch FROM available_at - now()) * 1000)::float8 AS ms FROM runs
     WHERE status = 'pending' AND ready AND failed_attempts > 0 AND available_at > now() ORDER BY available_at LIMIT 1`)
  return row?.ms ?? null
}

/** Whether no run of the class is running, or could begin now. */
export async function isQueueEmpty(db: Queryable, podClass: string): Promise<boolean> {
  const row = await db.first<{ empty: boolean }>(sql`SELECT queue_depth(${podClass}) = 0 AS empty`)
  return row!.empty
}
