/** Deleting a pipeline with all its runs. */
import { type Database, DEADLOCK, isDatabaseError, type Queryable, sql } from '../database/database.ts'
import { findPipeline, lockPipeline } from '../pipelines/pipelines.ts'
import { forgetTotals } from '../pipelines/totals.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { cancelRunsOfPipeline } from './cancel.ts'

/**
 * Cancels its runs, then deletes the pipeline with them; their blobs are queued for deletion. Runs are always locked
 * before their pipeline. A run created in between is cancelled in a second pass; if that deadlocks with a worker
 * claiming it, PostgreSQL aborts one of the two and this starts over.
 */
export async function deletePipeline(db: Database, actor: Actor, id: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await db.transaction((tx) => removePipeline(tx, actor, id))
      return forgetTotals(actor.organization_id)
    } catch (error) {
      if (tries === 5 || !isDatabaseError(error, DEADLOCK)) throw error
    }
  }
}

/** Inside of a transaction. */
export async function removePipeline(tx: Queryable, actor: Actor, id: string): Promise<void> {
  requirePermission(actor, 'pipelines:write', (await findPipeline(tx, actor, id)).domain_id)
  await cancelRunsOfPipeline(tx, actor.organization_id, id)
  const row = await lockPipeline(tx, actor, id)
  requirePermission(actor, 'pipelines:write', row.domain_id)
  await cancelRunsOfPipeline(tx, actor.organization_id, id)
  await tx.execute(sql`DELETE FROM pipelines WHERE id = ${id}`)
  await audit(tx, actor, 'pipeline.deleted', { type: 'pipeline', id, details: { name: row.name } })
}
