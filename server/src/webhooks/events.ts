/**
 * The events that organizations are notified of: the ends of runs, queued as deliveries in the statement that ends the
 * run.
 */
import { isoText, type Statement, sql } from '../database/database.ts'

export const RUN_EVENTS = ['run.failed', 'run.succeeded', 'run.recovered'] as const
export type RunEvent = (typeof RUN_EVENTS)[number]

/**
 * Part of a statement whose `done` holds the runs that it has ended: queues the webhook deliveries for them. A success
 * after a failure is both a success and a recovery.
 */
export const queueRunEvents: Statement = sql`
  INSERT INTO webhook_deliveries (webhook_id, organization_id, event, payload)
  SELECT w.id, w.organization_id, h.event,
         jsonb_build_object('event', h.event, 'run', jsonb_build_object('id', e.id, 'pipeline_id', e.pipeline_id, 'pipeline_name', p.name, 'status', e.status,
           'triggered_by', e.triggered_by, 'error', e.error, 'started_at', ${isoText('e.started_at')}, 'finished_at', ${isoText('e.finished_at')}, 'records_written', e.records_written))
    FROM done e
    JOIN webhooks w ON w.organization_id = e.organization_id AND w.enabled
    JOIN pipelines p ON p.id = e.pipeline_id
   CROSS JOIN LATERAL (
     SELECT 'run.failed' AS event WHERE e.status = 'failed'
     UNION ALL SELECT 'run.succeeded' WHERE e.status = 'success'
     UNION ALL SELECT 'run.recovered' WHERE e.status = 'success' AND 'failed' = (
       SELECT b.status FROM runs b WHERE b.pipeline_id = e.pipeline_id AND b.seq < e.seq AND b.status IN ('success', 'failed') ORDER BY b.seq DESC LIMIT 1)) h
   WHERE w.events ? h.event
     FOR KEY SHARE OF w
  RETURNING 1`
