/**
 * How an attempt ends. Each function is one transaction around one conditional update that names the attempt; false means
 * that the run was no longer ours (cancelled, or taken over) and nothing was changed.
 */
import { outputPath } from '../blobs/run-keys.ts'
import type { Column } from '../connectors/contract.ts'
import { type Database, isoText, type Queryable, type Statement, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'
import type { Checkpoint, Counts, Outcome } from '../engine/job.ts'
import type { Json } from '../json/json.ts'
import { noteRunEvent } from '../webhooks/events.ts'
import { insertChunk, type LogChunk } from './log.ts'
import { readyNext } from './states.ts'

export interface RunLease {
  id: string
  organization_id: string
  pipeline_id: string
  seq: number
  attempt: number
}

export interface Ending {
  /** The last lines of the log, written in the same transaction. */
  log: LogChunk | null
}

export interface FailedEnding extends Ending {
  error: string
  /** What was moved since the run's counts were last written. */
  counts: Counts | null
}

export interface Retry extends FailedEnding {
  delaySeconds: number
}

const keepCounts = (counts: Counts | null): Statement =>
  counts
    ? sql`, records_read = ${counts.records_read}, records_written = ${counts.records_written}, bytes_written = ${counts.bytes_written}`
    : sql``

export interface SuccessfulEnding extends Ending {
  outcome: Outcome
  incremental: boolean
}

export function finishSuccess(db: Database, run: RunLease, ending: SuccessfulEnding): Promise<boolean> {
  const { outcome, incremental, log } = ending
  const { output } = outcome
  return db.transaction(async (tx) => {
    const done = await tx.execute(sql`
      UPDATE runs SET status = 'success', finished_at = now(), error = NULL, lease_until = NULL, config_box = NULL, cursor = NULL, parts = '[]',
             records_read = ${outcome.records_read}, records_written = ${outcome.records_written}, bytes_written = ${outcome.bytes_written},
             output_file = ${output && outputPath(run, output.extension)}, output_file_size = ${output?.size ?? null},
             output_parts = ${output && JSON.stringify(output.parts.map(({ key, size }) => ({ key, size })))}, output_type = ${output?.content_type ?? null},
             stage_left = ${run.attempt > 1 || output?.parts.some((part) => part.key.endsWith('-output.part')) === true}
       WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'running'`)
    if (done === 0) return false
    if (incremental && outcome.cursor !== null) await saveState(tx, run, outcome.cursor)
    await endRun(tx, run, 'success', log)
    return true
  })
}

export function finishFailed(db: Database, run: RunLease, { error, log, counts }: FailedEnding): Promise<boolean> {
  return db.transaction(async (tx) => {
    const done = await tx.execute(sql`
      UPDATE runs SET status = 'failed', finished_at = now(), error = ${error}, lease_until = NULL, config_box = NULL, cursor = NULL, parts = '[]', stage_left = true${keepCounts(counts)}
       WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'running'`)
    if (done === 0) return false
    await endRun(tx, run, 'failed', log)
    return true
  })
}

/** Back to waiting, after a failure that can pass. What its checkpoints hold is kept. */
export function retryLater(db: Database, run: RunLease, { error, delaySeconds, log, counts }: Retry): Promise<boolean> {
  return db.transaction(async (tx) => {
    const done = await tx.execute(sql`
      UPDATE runs SET status = 'pending', error = ${error}, lease_until = NULL, worker = NULL, failed_attempts = failed_attempts + 1,
             available_at = now() + make_interval(secs => ${delaySeconds})${keepCounts(counts)}
       WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'running'`)
    if (done === 0) return false
    await insertChunk(tx, run.id, log)
    await tx.execute(notifyRun('ready'))
    await tx.execute(notifyRun('state', run.id))
    return true
  })
}

/** Back to waiting because this worker shuts down: another one goes on at once, and nothing is counted against the run. */
export function handOver(db: Database, run: RunLease, { log }: Ending): Promise<boolean> {
  return db.transaction(async (tx) => {
    const done = await tx.execute(sql`
      UPDATE runs SET status = 'pending', lease_until = NULL, worker = NULL WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'running'`)
    if (done === 0) return false
    await insertChunk(tx, run.id, log)
    await tx.execute(notifyRun('ready'))
    return true
  })
}

/** What every end has in common, whoever brings it about. */
export async function endRun(
  tx: Queryable,
  run: Omit<RunLease, 'attempt' | 'seq'>,
  status: 'success' | 'failed' | 'cancelled',
  log: LogChunk | null,
): Promise<void> {
  await insertChunk(tx, run.id, log)
  await noteRunEvent(tx, run, status)
  await readyNext(tx, run.pipeline_id, run.id)
}

/** A newer edit of the state (a higher seq) stands: it was made for the runs that come after this one. */
export const saveState = (tx: Queryable, run: Pick<RunLease, 'pipeline_id' | 'seq'>, cursor: Json): Promise<number> =>
  tx.execute(sql`
    INSERT INTO pipeline_state AS s (pipeline_id, seq, cursor) VALUES (${run.pipeline_id}, ${run.seq}, ${JSON.stringify(cursor)})
    ON CONFLICT (pipeline_id) DO UPDATE SET seq = excluded.seq, cursor = excluded.cursor, updated_at = now() WHERE s.seq <= excluded.seq`)

/** Keeps a checkpoint, if the attempt still holds the run. */
export async function saveCheckpoint(db: Queryable, run: RunLease, point: Checkpoint): Promise<boolean> {
  const saved = await db.execute(sql`
    UPDATE runs SET checkpoint = ${point.checkpoint}, cursor = ${JSON.stringify(point.cursor)}, parts = ${JSON.stringify(point.parts)},
           records_read = ${point.records_read}, records_written = ${point.records_written}, bytes_written = ${point.bytes_written}
     WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'running'`)
  return saved === 1
}

export const saveSchema = (db: Queryable, run: RunLease, columns: Column[], changes: string[]): Promise<number> =>
  db.execute(sql`
    INSERT INTO pipeline_schemas AS s (pipeline_id, columns, changes)
    SELECT ${run.pipeline_id}, ${JSON.stringify(columns)}, jsonb_agg(jsonb_build_object('at', ${isoText('now()')}, 'run_id', ${run.id}::uuid, 'change', change)) FILTER (WHERE change IS NOT NULL) || '[]'
      FROM unnest(${changes.length > 0 ? changes : [null]}::text[]) AS change
     WHERE EXISTS (SELECT 1 FROM runs WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'running')
    ON CONFLICT (pipeline_id) DO UPDATE SET columns = excluded.columns, changes = s.changes || excluded.changes, updated_at = now()`)

/** Progress of many runs in one statement. */
export const saveProgress = (db: Queryable, runs: (Pick<RunLease, 'id' | 'attempt'> & Counts)[]): Promise<number> =>
  db.execute(sql`
    UPDATE runs r SET records_read = u.records_read, records_written = u.records_written, bytes_written = u.bytes_written
      FROM unnest(${runs.map((run) => run.id)}::uuid[], ${runs.map((run) => run.attempt)}::int[], ${runs.map((run) => run.records_read)}::bigint[],
                  ${runs.map((run) => run.records_written)}::bigint[], ${runs.map((run) => run.bytes_written)}::bigint[])
           AS u (id, attempt, records_read, records_written, bytes_written)
     WHERE r.id = u.id AND r.attempt = u.attempt AND r.status = 'running'`)
