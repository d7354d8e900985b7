/**
 * Incidents: what a rule has told about a pipeline and what has not ended. They change in the transaction that ends a run
 * (the function note_run_in_alerts of migration 0130), when a pipeline becomes late (late.ts), and silently when a rule or a
 * pipeline is disabled, changed or deleted.
 *
 *   failed      opens with a failed run, closes with a success
 *   late        opens when no run has succeeded for too long, closes with a success
 *   row_count   opens with a success outside of the range, closes with one inside
 */
import { type Queryable, type Statement, sql } from '../database/database.ts'

/**
 * Part of a statement in which `d` is a run that has just ended, after `end_run`. Organizations without rules pay one look
 * at an index.
 */
export const noteRunInAlerts: Statement = sql`
  CASE WHEN d.status <> 'cancelled' AND EXISTS (SELECT 1 FROM alerts a WHERE a.organization_id = d.organization_id AND a.enabled) THEN note_run_in_alerts(d.id) END`

const KEPT_DAYS = 30
const REMOVED_AT_ONCE = 1000

/** Removes incidents that ended long ago, in small batches. */
export async function removeOldIncidents(db: Queryable): Promise<number> {
  let removed = 0
  for (;;) {
    const count = await db.execute(sql`
      DELETE FROM alert_incidents WHERE id IN (
        SELECT id FROM alert_incidents WHERE closed_at < now() - make_interval(days => ${KEPT_DAYS}) LIMIT ${REMOVED_AT_ONCE} FOR UPDATE SKIP LOCKED)`)
    removed += count
    if (count < REMOVED_AT_ONCE) return removed
  }
}
