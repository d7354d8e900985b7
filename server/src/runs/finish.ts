/**
 * How an attempt ends, other than with success (success.ts). Each function is one statement around a conditional update that
 * names the attempt; false means that the run was no longer ours (cancelled, or taken over) and nothing changed.
 */
import { noteRunInAlerts } from '../alerts/incidents.ts'
import type { Column } from '../connectors/contract.ts'
import { isoText, type Queryable, type Statement, sql } from '../database/database.ts'
import { CHANNEL } from '../database/notifications.ts'
import type { Fingerprint } from '../engine/fingerprint.ts'
import type { Checkpoint, Counts, Part } from '../engine/job.ts'
import { queueRunEvents } from '../webhooks/events.ts'
import type { Claim, ClaimRequest } from './claim.ts'
import type { LogChunk } from './log.ts'
import { type Moment, takeMoment } from './moment.ts'
import { isRunning } from './states.ts'

export interface RunLease {
  id: string
  organization_id: string
  pipeline_id: string
  seq: number
  attempt: number
  worker: string
}

/**
 * The attempt still has the run. After a failover that lost transactions two workers may have claimed the same attempt; the
 * row names the one that counts.
 */
const isHeld = (run: RunLease): Statement =>
  sql`id = ${run.id} AND attempt = ${run.attempt} AND worker = ${run.worker} AND ${isRunning('runs')}`

export interface Ending {
  /** The last lines of the log, written in the same statement. */
  log: LogChunk | null
  /** Claims a run for the slot that becomes free, in the same statement. */
  next?: NextClaim | undefined
  /** Whether the worker that executes the run has to be told to stop. */
  stopsWorker?: boolean
}

export interface NextClaim {
  request: ClaimRequest
  /** `sentAt` is when the request was sent: the leases count from there. */
  take(claim: Claim, sentAt: Moment): void
  /** The answer was lost: runs may have been claimed without this worker knowing. */
  lost(): void
}

export interface FailedEnding extends Ending {
  error: string
  /** What was transferred since the run's counts were last written. */
  counts: Counts | null
  /** Nothing of what was written stays in the destination. */
  discarded?: boolean
}

export interface Retry extends FailedEnding {
  delaySeconds: number
}

const keepCounts = (counts: Counts | null): Statement =>
  counts
    ? sql`, records_read = ${counts.records_read}, records_written = ${counts.records_written}, bytes_written = ${counts.bytes_written}`
    : sql``

const discardCounts = (counts: Counts | null): Statement =>
  sql`, records_read = ${counts ? sql`${counts.records_read}` : sql`records_read`}, records_written = 0, bytes_written = 0`

/** Empty lists are not stored: null says that there is no quarantine. */
function keepQuarantine(parts: readonly Part[] = []): Statement {
  const records = parts.reduce((sum, part) => sum + part.records, 0)
  return sql`, quarantine_parts = ${parts.length === 0 ? null : JSON.stringify(parts)}, records_quarantined = ${records}`
}

export function finishFailed(db: Queryable, run: RunLease, ending: FailedEnding): Promise<boolean> {
  const update = sql`
    UPDATE runs SET status = 'failed', finished_at = now(), error = ${ending.error}, lease_until = NULL, config_box = NULL, cursor = NULL, parts = '[]',
           stage_left = true${ending.discarded ? discardCounts(ending.counts) : keepCounts(ending.counts)}
     WHERE ${isHeld(run)}`
  return endRun(db, update, ending)
}

/** Back to pending, after a transient failure. Its checkpoints are kept. */
export const retryLater = (
  db: Queryable,
  run: RunLease,
  { error, delaySeconds, log, counts }: Retry,
): Promise<boolean> =>
  returnToPending(
    db,
    run,
    log,
    sql`error = ${error}, failed_attempts = failed_attempts + 1, available_at = now() + make_interval(secs => ${delaySeconds})${keepCounts(counts)}`,
  )

/** Back to pending for any worker: it resumes at once, and nothing counts against the run. */
export const handOver = (db: Queryable, run: RunLease, { log }: Ending): Promise<boolean> =>
  returnToPending(db, run, log, sql`available_at = now()`)

async function returnToPending(
  db: Queryable,
  run: RunLease,
  log: LogChunk | null,
  changes: Statement,
): Promise<boolean> {
  const row = await db.first(sql`
    WITH waits AS (
      UPDATE runs SET status = 'pending', lease_until = NULL, worker = NULL, ${changes}
       WHERE ${isHeld(run)} RETURNING id)
    SELECT ${appendChunk(log)}, pg_notify(${CHANNEL}, 'ready'), pg_notify(${CHANNEL}, 'state ' || id) FROM waits`)
  return row !== null
}

/** Null if there is nothing to add. */
const appendChunk = (log: LogChunk | null): Statement =>
  log ? sql`append_run_log(id, NULL, ${log.line_count}, ${log.lines})` : sql`NULL`

/**
 * What all endings have in common. `update` sets the final status of one run and ends with its condition; `also` holds
 * further parts of the statement, which see the ended run as `done`.
 */
export async function endRun(db: Queryable, update: Statement, ending: Ending, also = sql``): Promise<boolean> {
  const { log, next, stopsWorker = false } = ending
  const request = next?.request
  const stop = stopsWorker ? sql`, pg_notify(${CHANNEL}, 'cancel ' || d.id)` : sql``
  const sentAt = takeMoment()
  const row = await db.first<Claim>(sql`
    WITH done AS (${update} RETURNING id, organization_id, pipeline_id, seq, status, triggered_by, error, started_at, finished_at, records_written),
    queued AS (${queueRunEvents})${also}
    SELECT e.*, CASE WHEN EXISTS (SELECT 1 FROM queued) THEN pg_notify(${CHANNEL}, 'delivery') END${stop}, ${noteRunInAlerts}
      FROM done d
     CROSS JOIN LATERAL end_run(d.id, d.pipeline_id, ${log?.line_count ?? 0}, ${log?.lines ?? ''},
       ${request?.worker ?? ''}, ${request?.free ?? 0}, ${request?.perOrganization ?? 0}, ${request?.leaseSeconds ?? 0}, ${request?.after ?? null}) e`)
  if (row?.run_ids) next?.take(row, sentAt)
  return row !== null
}

/**
 * Saves a checkpoint if the attempt still holds the run. It resets the count of lost workers, because the run made
 * progress.
 */
export async function saveCheckpoint(db: Queryable, run: RunLease, point: Checkpoint): Promise<boolean> {
  const saved = await db.execute(sql`
    UPDATE runs SET checkpoint = ${point.checkpoint}, lost_attempts = 0, cursor = ${JSON.stringify(point.cursor)}, parts = ${JSON.stringify(point.parts)},
           records_read = ${point.records_read}, records_written = ${point.records_written}, bytes_written = ${point.bytes_written}${keepQuarantine(point.quarantine)}
     WHERE ${isHeld(run)}`)
  return saved === 1
}

export interface KeptSchema {
  columns: Column[]
  changes: string[]
  fingerprint: Fingerprint
}

export const saveSchema = (
  db: Queryable,
  run: RunLease,
  { columns, changes, fingerprint }: KeptSchema,
): Promise<number> =>
  db.execute(sql`
    INSERT INTO pipeline_schemas AS s (pipeline_id, columns, fingerprint, changes)
    SELECT ${run.pipeline_id}, ${JSON.stringify(columns)}, ${JSON.stringify(fingerprint)}, jsonb_agg(jsonb_build_object('at', ${isoText('now()')}, 'run_id', ${run.id}::uuid, 'change', change)) FILTER (WHERE change IS NOT NULL) || '[]'
      FROM unnest(${changes.length > 0 ? changes : [null]}::text[]) AS change
     WHERE EXISTS (SELECT 1 FROM runs WHERE ${isHeld(run)})
    ON CONFLICT (pipeline_id) DO UPDATE SET columns = excluded.columns, fingerprint = excluded.fingerprint, changes = s.changes || excluded.changes, updated_at = now()`)

/** Saves the progress of many runs in one statement. */
export const saveProgress = (
  db: Queryable,
  runs: (Pick<RunLease, 'id' | 'attempt' | 'worker'> & Counts)[],
): Promise<number> =>
  db.execute(sql`
    UPDATE runs r SET records_read = u.records_read, records_written = u.records_written, bytes_written = u.bytes_written
      FROM unnest(${runs.map((run) => run.id)}::uuid[], ${runs.map((run) => run.attempt)}::int[], ${runs.map((run) => run.worker)}::text[], ${runs.map((run) => run.records_read)}::bigint[],
                  ${runs.map((run) => run.records_written)}::bigint[], ${runs.map((run) => run.bytes_written)}::bigint[])
           AS u (id, attempt, worker, records_read, records_written, bytes_written)
     WHERE r.id = u.id AND r.attempt = u.attempt AND r.worker = u.worker AND ${isRunning('r')}`)
