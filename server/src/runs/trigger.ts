/**
 * Triggering: one transaction inserts the run with the configuration it will use, pinned and encrypted, and wakes a
 * worker. What can not be resolved (a saved connector that is gone) is pinned as such, so that the run itself fails with
 * a clear sentence, on a schedule as by hand.
 */
import { randomUUID } from 'node:crypto'
import { ConnectorError } from '../connectors/contract.ts'
import { type Database, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { notFound } from '../errors.ts'
import { openPipelineConfig, type ResolvedConfig, resolveConfig } from '../pipelines/resolve.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'

export type PinnedConfig = { config: ResolvedConfig } | { problem: string }

export interface TriggeredRun {
  id: string
  pipeline_id: string
  status: 'pending'
  triggered_by: string
  created_at: string
}

export const runPlace = (organizationId: string, runId: string) => ({
  organization_id: organizationId,
  column: 'runs.config_box',
  row_id: runId,
})

export async function triggerRun(
  db: Database,
  box: SecretBox,
  actor: Actor,
  pipelineId: string,
): Promise<TriggeredRun> {
  return db.transaction(async (tx) => {
    const pipeline = await tx.first<{
      id: string
      organization_id: string
      domain_id: string | null
      config_box: Buffer
    }>(sql`
      SELECT id, organization_id, domain_id, config_box FROM pipelines WHERE id = ${pipelineId} AND organization_id = ${actor.organization_id}${inVisibleDomain(actor)} FOR NO KEY UPDATE`)
    if (!pipeline) throw notFound('Pipeline')
    requirePermission(actor, 'pipelines:run', pipeline.domain_id)
    const pinned = await pinConfig(async () =>
      resolveConfig(tx, box, actor.organization_id, openPipelineConfig(box, pipeline)),
    )
    const id = randomUUID()
    const run = await tx.first<TriggeredRun>(sql`
      INSERT INTO runs (id, organization_id, pipeline_id, triggered_by, triggered_by_user, config_box, source_version, ready)
      SELECT ${id}, ${actor.organization_id}, ${pipelineId}, 'manual', ${actor.user_id}, ${box.seal(runPlace(actor.organization_id, id), pinned)}, ${versionOf(pinned)},
             NOT EXISTS (SELECT 1 FROM runs WHERE pipeline_id = ${pipelineId} AND status IN ('pending', 'running'))
      RETURNING id, pipeline_id, status, triggered_by, created_at`)
    await audit(tx, actor, 'run.triggered', { type: 'run', id }, { pipeline_id: pipelineId })
    await tx.execute(notifyRun('ready'))
    return run!
  })
}

export async function pinConfig(resolve: () => ResolvedConfig | Promise<ResolvedConfig>): Promise<PinnedConfig> {
  try {
    return { config: await resolve() }
  } catch (error) {
    if (error instanceof ConnectorError) return { problem: error.message }
    throw error
  }
}

export const versionOf = (pinned: PinnedConfig): number | null =>
  'config' in pinned ? (pinned.config.source.custom?.version ?? null) : null
