/** What organizations are told of: the end of a run, written as deliveries in the transaction that ends it. */
import { isoText, type Queryable, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'

export const RUN_EVENTS = ['run.failed', 'run.succeeded', 'run.recovered'] as const
export type RunEvent = (typeof RUN_EVENTS)[number]

/** A success after a failure is both a success and a recovery. */
export async function noteRunEvent(
  tx: Queryable,
  run: { id: string; organization_id: string; pipeline_id: string },
  status: 'success' | 'failed' | 'cancelled',
): Promise<void> {
  if (status === 'cancelled') return
  const listens = await tx.first(
    sql`SELECT 1 FROM webhooks WHERE organization_id = ${run.organization_id} AND enabled LIMIT 1`,
  )
  if (!listens) return
  const queued = await tx.execute(sql`
    WITH ended AS (
      SELECT r.id, r.seq, r.status, r.triggered_by, r.error, r.started_at, r.finished_at, r.records_written, p.id AS pipeline_id, p.name AS pipeline_name,
             (SELECT e.status FROM runs e WHERE e.pipeline_id = r.pipeline_id AND e.seq < r.seq AND e.status IN ('success', 'failed') ORDER BY e.seq DESC LIMIT 1) AS before
        FROM runs r JOIN pipelines p ON p.id = r.pipeline_id WHERE r.id = ${run.id}
    ),
    happened AS (
      SELECT 'run.failed' AS event FROM ended WHERE status = 'failed'
      UNION ALL SELECT 'run.succeeded' FROM ended WHERE status = 'success'
      UNION ALL SELECT 'run.recovered' FROM ended WHERE status = 'success' AND before = 'failed'
    )
    INSERT INTO webhook_deliveries (webhook_id, organization_id, event, payload)
    SELECT w.id, w.organization_id, h.event,
           jsonb_build_object('event', h.event, 'run', jsonb_build_object('id', e.id, 'pipeline_id', e.pipeline_id, 'pipeline_name', e.pipeline_name, 'status', e.status,
             'triggered_by', e.triggered_by, 'error', e.error, 'started_at', ${isoText('e.started_at')}, 'finished_at', ${isoText('e.finished_at')}, 'records_written', e.records_written))
      FROM webhooks w CROSS JOIN ended e JOIN happened h ON w.events ? h.event
     WHERE w.organization_id = ${run.organization_id} AND w.enabled`)
  if (queued > 0) await tx.execute(notifyRun('delivery'))
}
