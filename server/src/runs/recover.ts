/**
 * Recovery: an expired lease means that a worker died or was cut off. Its run becomes pending again and resumes from
 * its last checkpoint, or fails if that happened three times without a checkpoint in between. Any process may do this
 * at any time: it locks the run's row and checks the lease again, so only one of them moves the run. From then on the
 * attempt that lost it matches no row.
 */
import { type Connections, type Queryable, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'
import { endRun } from './finish.ts'
import { appendLine, oneLine } from './log.ts'
import { isRunning, MAX_LOST_ATTEMPTS } from './states.ts'

export interface LostRun {
  id: string
  organization_id: string
  pipeline_id: string
  attempt: number
  lost_attempts: number
  worker: string | null
  checkpoint: number
}

const AT_ONCE = 100

/**
 * After a database outage, leases may have expired because they could not be renewed. A process that noticed the outage
 * waits one lease period, so that workers can renew, before it declares any of them lost.
 */
export async function recoverLostRuns(
  db: Connections,
  leaseSeconds: number,
  onFailed: (run: LostRun, error: string) => void = () => {},
): Promise<number> {
  if (db.steadyForMs() < leaseSeconds * 1000) return 0
  const lost = await db.query<{ id: string }>(
    sql`SELECT id FROM runs WHERE status = 'running' AND lease_until < clock_timestamp() LIMIT ${AT_ONCE}`,
  )
  for (const { id } of lost) {
    const given = await recoverRun(db, id)
    if (given) onFailed(given.run, given.error)
  }
  return lost.length
}

/** Makes runs ready that a finish skipped because their row was locked at that moment. */
export async function readySkippedRuns(db: Queryable): Promise<number> {
  const row = await db.first<{ readied: number }>(sql`SELECT ready_forgotten_runs(${AT_ONCE}) AS readied`)
  return row!.readied
}

/** Returns the run if it was given up. */
function recoverRun(db: Connections, id: string): Promise<{ run: LostRun; error: string } | null> {
  return db.transaction(async (tx) => {
    const run = await tx.first<LostRun>(sql`
      SELECT id, organization_id, pipeline_id, attempt, lost_attempts, worker, checkpoint FROM runs
       WHERE id = ${id} AND ${isRunning('runs')} AND lease_until < clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED`)
    if (!run) return null
    const lost = run.lost_attempts + 1
    const where = run.worker ? `on ${run.worker} ` : ''
    if (lost < MAX_LOST_ATTEMPTS) {
      await tx.execute(
        sql`UPDATE runs SET status = 'pending', worker = NULL, lease_until = NULL, lost_attempts = ${lost}, available_at = now() WHERE id = ${id}`,
      )
      await appendLine(
        tx,
        id,
        'warn',
        `The worker ${where}was lost in attempt ${run.attempt}. Another worker resumes from checkpoint ${run.checkpoint}.`,
      )
      await tx.execute(notifyRun('ready'))
      await tx.execute(notifyRun('state', id))
      return null
    }
    const error = `internal: the run was given up after its worker was lost ${lost} times; check whether machines run out of memory, then trigger it again`
    const update = sql`
      UPDATE runs SET status = 'failed', finished_at = now(), lost_attempts = ${lost}, error = ${error}, lease_until = NULL, config_box = NULL, cursor = NULL,
             parts = '[]', stage_left = true WHERE id = ${id}`
    await endRun(tx, update, {
      log: oneLine('error', `The worker ${where}was lost for the third time; the run is given up.`),
    })
    return { run, error }
  })
}
