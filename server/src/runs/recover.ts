/**
 * Recovery: a lease that ran out means a worker that died or was cut off. Its run waits again and goes on from its last
 * checkpoint, or fails when that has happened three times. Any process may do this, at any time: each run is moved by a
 * conditional update, and the attempt that lost it matches nothing from then on.
 */
import { type Database, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'
import { endRun } from './finish.ts'
import { appendLine } from './log.ts'
import { MAX_LOST_ATTEMPTS } from './states.ts'

interface LostRun {
  id: string
  organization_id: string
  pipeline_id: string
  attempt: number
  lost_attempts: number
  worker: string | null
  checkpoint: number
}

export async function recoverLostRuns(db: Database): Promise<number> {
  const lost = await db.query<{ id: string }>(
    sql`SELECT id FROM runs WHERE status = 'running' AND lease_until < now() ORDER BY lease_until LIMIT 100`,
  )
  for (const { id } of lost) await recoverRun(db, id)
  return lost.length
}

function recoverRun(db: Database, id: string): Promise<void> {
  return db.transaction(async (tx) => {
    const run = await tx.first<LostRun>(sql`
      SELECT id, organization_id, pipeline_id, attempt, lost_attempts, worker, checkpoint FROM runs
       WHERE id = ${id} AND status = 'running' AND lease_until < now() FOR UPDATE SKIP LOCKED`)
    if (!run) return
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
        `The worker ${where}was lost in attempt ${run.attempt}. Another one takes over from checkpoint ${run.checkpoint}.`,
      )
      await tx.execute(notifyRun('ready'))
      await tx.execute(notifyRun('state', id))
      return
    }
    const error = `internal: the run was given up after its worker was lost ${lost} times; see whether machines run out of memory, and trigger it again`
    await tx.execute(sql`
      UPDATE runs SET status = 'failed', finished_at = now(), lost_attempts = ${lost}, error = ${error}, lease_until = NULL, config_box = NULL, cursor = NULL,
             parts = '[]', stage_left = true WHERE id = ${id}`)
    await appendLine(tx, id, 'error', `The worker ${where}was lost for the third time; the run is given up.`)
    await endRun(tx, run, 'failed', null)
  })
}
