/**
 * Successes, written together: while one statement is on its way, those that follow wait, and go with the next one. Each
 * names its attempt; false means that the run was no longer ours (cancelled, or taken over) and nothing changed. The function
 * `finish_runs` (migration 0140) says why several at a time never wait for a lock.
 */
import { noteRunInAlerts } from '../alerts/incidents.ts'
import { sumStored } from '../blobs/parts.ts'
import { isConverted, outputPath } from '../blobs/run-keys.ts'
import { type Queryable, sql } from '../database/database.ts'
import { CHANNEL } from '../database/notifications.ts'
import { isUnreachable } from '../database/unreachable.ts'
import type { Fingerprint } from '../engine/fingerprint.ts'
import type { Outcome } from '../engine/job.ts'
import { queueRunEvents } from '../webhooks/events.ts'
import type { Claim } from './claim.ts'
import type { Ending, NextClaim, RunLease } from './finish.ts'
import { takeMoment } from './moment.ts'

export interface SuccessfulEnding extends Ending {
  outcome: Outcome
  /**
   * What the new state belongs to: the config that this run started with, even if the pipeline has changed since. False
   * if the run does not save a state.
   */
  incremental: Fingerprint | false
  /** What the output is the file of, for a destination whose next run goes on from it (`fingerprint.destination`). */
  target?: string | null
}

interface Success {
  run: RunLease
  ending: SuccessfulEnding
  /** Its row, as JSON. */
  text: string
}

interface Queued extends Success {
  resolve(ended: boolean): void
  reject(error: unknown): void
}

export type FinishSuccess = (run: RunLease, ending: SuccessfulEnding) => Promise<boolean>

const AT_ONCE = 32
/** Lists of parts and columns may be long; most are a few hundred bytes. */
const CHARACTERS_AT_ONCE = 1_000_000

export function createSuccessQueue(db: Queryable): FinishSuccess {
  const waiting: Queued[] = []
  let writing = false

  const writeAll = async () => {
    writing = true
    while (waiting.length > 0) await finishTogether(db, waiting.splice(0, countAtOnce(waiting)))
    writing = false
  }
  return (run, ending) => {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    waiting.push({ run, ending, text: JSON.stringify(describeSuccess(run, ending)), resolve, reject })
    if (!writing) void writeAll()
    return promise
  }
}

function countAtOnce(waiting: readonly Queued[]): number {
  let characters = 0
  const count = waiting.findIndex(({ text }, index) => {
    characters += text.length
    return index === AT_ONCE || (index > 0 && characters > CHARACTERS_AT_ONCE)
  })
  return count === -1 ? waiting.length : count
}

/**
 * A run that somebody else has locked is written alone, which may take longer. So is each of them if they cannot be written
 * together, for whatever reason but a lost connection.
 */
async function finishTogether(db: Queryable, some: readonly Queued[]): Promise<void> {
  const writeAlone = ({ run, ending, resolve, reject }: Queued, next?: NextClaim) =>
    void finishSuccess(db, run, { ...ending, next }).then(resolve, reject)
  try {
    const { ended, skipped } = await finishRuns(db, some, false)
    for (const one of some)
      if (skipped.has(one.run.id)) writeAlone(one)
      else one.resolve(ended.has(one.run.id))
  } catch (error) {
    for (const one of some)
      if (some.length === 1 || isUnreachable(error)) one.reject(error)
      else writeAlone(one, one.ending.next)
  }
}

export async function finishSuccess(db: Queryable, run: RunLease, ending: SuccessfulEnding): Promise<boolean> {
  const { ended } = await finishRuns(db, [{ run, ending, text: JSON.stringify(describeSuccess(run, ending)) }], true)
  return ended.has(run.id)
}

/** Ends what it can, and claims a run for each slot that becomes free, as far as their endings ask for it. */
async function finishRuns(
  db: Queryable,
  some: readonly Success[],
  patient: boolean,
): Promise<Record<'ended' | 'skipped', Set<string>>> {
  const nexts = some.flatMap(({ ending }) => ending.next ?? [])
  const request = nexts[0]?.request
  const sentAt = takeMoment()
  const row = await db.first<Claim & { ended: { id: string }[]; skipped: string[] }>(sql`
    WITH finished AS MATERIALIZED (
      SELECT * FROM finish_runs(${`[${some.map(({ text }) => text).join(',')}]`}::jsonb, ${patient},
        ${request?.worker ?? ''}, ${nexts.length}, ${request?.perOrganization ?? 0}, ${request?.leaseSeconds ?? 0}, ${request?.after ?? null})),
    done AS (
      SELECT d.* FROM finished f CROSS JOIN LATERAL jsonb_to_recordset(f.ended) AS d (id uuid, organization_id uuid, pipeline_id uuid, seq bigint, status text,
        triggered_by text, error text, started_at timestamptz, finished_at timestamptz, records_written bigint)),
    queued AS (${queueRunEvents})
    SELECT f.*, CASE WHEN EXISTS (SELECT 1 FROM queued) THEN pg_notify(${CHANNEL}, 'delivery') END,
           (SELECT count(${noteRunInAlerts}) FROM done d) FROM finished f`)
  const { ended, skipped, ...claim } = row!
  const result = { ended: new Set(ended.map(({ id }) => id)), skipped: new Set(skipped) }
  if (claim.run_ids) {
    const answered = some.filter(({ run, ending }) => ending.next && !result.skipped.has(run.id))
    // The first one takes them all; the others only learn that their slot has been asked for.
    for (const [index, { ending }] of answered.entries())
      ending.next!.take(index === 0 ? claim : { ...claim, run_ids: [], attempts: [] }, sentAt)
  }
  return result
}

/** A row for `finish_runs`; what is absent is null there. */
function describeSuccess(run: RunLease, { outcome, incremental, target, log }: SuccessfulEnding) {
  const { output, quarantine = [], cursor, records_read, records_written, bytes_written } = outcome
  const { id, organization_id, pipeline_id, seq, attempt, worker } = run
  return {
    ...{ id, organization_id, pipeline_id, seq, attempt, worker, records_read, records_written, bytes_written },
    ...(output && {
      output_file: outputPath(run, output.extension),
      output_file_size: output.size,
      output_parts: output.parts.map(({ key, size, stored_bytes }) => ({ key, size, stored_bytes })),
      output_stored_bytes: sumStored(output.parts),
      output_type: output.content_type,
      output_columns: output.columns,
      output_target: target,
    }),
    stage_left: attempt > 1 || output?.parts.some((part) => isConverted(part.key)) === true,
    // Empty lists are not stored: null says that there is no quarantine.
    ...(quarantine.length > 0 && { quarantine_parts: quarantine }),
    records_quarantined: quarantine.reduce((sum, part) => sum + part.records, 0),
    line_count: log?.line_count ?? 0,
    // Half of a character would make all of this no JSON for PostgreSQL.
    lines: log?.lines.toWellFormed(),
    ...(incremental && cursor !== null && { cursor, fingerprint: incremental }),
  }
}
