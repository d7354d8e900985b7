/**
 * Cancelling takes effect at once: the row is updated before the worker hears of it, and from then on the run cannot be
 * finished.
 */
import { runsPrefix } from '../blobs/run-keys.ts'
import { type Database, type Queryable, raw, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'
import { AppError, notFound } from '../errors.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { auditStatement } from '../tenancy/audit.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'
import { endRun } from './finish.ts'
import { oneLine } from './log.ts'

const DOMAIN_ID = raw('p.domain_id')

export async function cancelRun(db: Database, actor: Actor, runId: string): Promise<{ status: 'cancelled' }> {
  return db.transaction(async (tx) => {
    const run = await tx.first<{ pipeline_id: string; pipeline: string; domain_id: string | null; status: string }>(sql`
      SELECT r.pipeline_id, p.name AS pipeline, p.domain_id, r.status FROM runs r JOIN pipelines p ON p.id = r.pipeline_id
       WHERE r.id = ${runId} AND r.organization_id = ${actor.organization_id}${inVisibleDomain(actor, DOMAIN_ID)}`)
    if (!run) throw notFound('Run')
    requirePermission(actor, 'pipelines:run', run.domain_id)
    // One statement, so that the worker hears of it soon. If nothing was cancelled, the error undoes the audit entry.
    const update = sql`
      UPDATE runs SET status = 'cancelled', finished_at = now(), lease_until = NULL, config_box = NULL, cursor = NULL, parts = '[]', stage_left = true
       WHERE id = ${runId} AND status IN ('pending', 'running')`
    const log = oneLine('warn', `Cancelled by ${actor.email}.`)
    const details = { pipeline_id: run.pipeline_id, pipeline: run.pipeline }
    const audited = sql`, audited AS (${auditStatement(actor, 'run.cancelled', { type: 'run', id: runId, details })})`
    if (!(await endRun(tx, update, { log, stopsWorker: true }, audited)))
      throw new AppError(
        'conflict',
        `The run has already ended${run.status === 'running' || run.status === 'pending' ? '' : ` (${run.status})`}; only a pending or running run can be cancelled`,
      )
    return { status: 'cancelled' }
  })
}

/** Called before a pipeline is deleted. Its rows are deleted with it; the blobs are queued for deletion. */
export async function cancelRunsOfPipeline(tx: Queryable, organizationId: string, pipelineId: string): Promise<void> {
  const unfinished = await tx.query<{ id: string }>(sql`
    UPDATE runs SET status = 'cancelled', finished_at = now(), lease_until = NULL
     WHERE pipeline_id = ${pipelineId} AND status IN ('pending', 'running') RETURNING id`)
  for (const { id } of unfinished) await tx.execute(notifyRun('cancel', id))
  await tx.execute(sql`
    INSERT INTO blob_deletions (prefix, due_at)
    SELECT ${runsPrefix(organizationId)} || id || '/', CASE WHEN id = ANY (${unfinished.map(({ id }) => id)}::uuid[]) THEN now() + interval '30 seconds' ELSE now() END
      FROM runs WHERE pipeline_id = ${pipelineId} ON CONFLICT DO NOTHING`)
}
