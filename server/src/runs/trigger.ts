/**
 * Triggers runs: one transaction inserts the run with the configuration it will use, pinned and encrypted, and wakes a
 * worker. A reference that cannot be resolved (a deleted saved connector) is pinned as such, so that the run itself
 * fails with a clear message, whether scheduled or triggered manually.
 */
import { randomUUID } from 'node:crypto'
import { type Database, lockForTransaction, type Queryable, sql } from '../database/database.ts'
import { countUpTo } from '../database/lists.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { AppError, notFound } from '../errors.ts'
import type { PipelineConfig } from '../pipelines/config-shape.ts'
import { openPipelineConfig, type ResolvedConfig, resolveConfig } from '../pipelines/resolve.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { auditStatement } from '../tenancy/audit.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'
import { pinConfig, placeRun, type RunnableConfig, versionOf } from './pinned-config.ts'
import { keepUsedConfigs, usedConfigOf } from './used-config.ts'

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

/** The services that triggering needs. */
export interface TriggerServices {
  db: Database
  box: SecretBox
  config: { ORG_MAX_PENDING_RUNS?: number | undefined; POD_CLASSES: string[] }
}

export function triggerRun(services: TriggerServices, actor: Actor, pipelineId: string): Promise<TriggeredRun> {
  return triggerAs(services, actor, pipelineId, { triggered_by: 'manual', details: {}, adapt: (config) => config })
}

interface TriggerKind {
  triggered_by: string
  /** For the audit log. */
  details: Record<string, string>
  /** What the run does with the config of its pipeline, before saved connectors and custom sources are looked up. */
  rewrite?(config: PipelineConfig): PipelineConfig
  /** And after that. */
  adapt(config: ResolvedConfig): RunnableConfig
}

export async function triggerAs(
  { db, box, config }: TriggerServices,
  actor: Actor,
  pipelineId: string,
  { triggered_by, details, rewrite = (config) => config, adapt }: TriggerKind,
): Promise<TriggeredRun> {
  return db.transaction(async (tx) => {
    const pipeline = await tx.first<{
      id: string
      organization_id: string
      name: string
      domain_id: string | null
      config_box: Buffer
    }>(sql`
      SELECT id, organization_id, name, domain_id, config_box FROM pipelines WHERE id = ${pipelineId} AND organization_id = ${actor.organization_id}${inVisibleDomain(actor)} FOR NO KEY UPDATE`)
    if (!pipeline) throw notFound('Pipeline')
    requirePermission(actor, 'pipelines:run', pipeline.domain_id)
    await checkPendingLimit(tx, actor, config.ORG_MAX_PENDING_RUNS)
    const { pinned, pod_class } = placeRun(
      await pinConfig(async () =>
        adapt(await resolveConfig(tx, box, actor.organization_id, rewrite(openPipelineConfig(box, pipeline)))),
      ),
      config.POD_CLASSES,
    )
    const id = randomUUID()
    const used = usedConfigOf(box, pipeline, pinned)
    const audited = auditStatement(actor, 'run.triggered', {
      type: 'run',
      id,
      details: { pipeline_id: pipelineId, pipeline: pipeline.name, ...details },
    })
    const run = await tx.first<TriggeredRun & { woken: null }>(sql`
      WITH kept AS (${keepUsedConfigs([used])}),
      audited AS (${audited}),
      added AS (
        INSERT INTO runs (id, organization_id, pipeline_id, triggered_by, triggered_by_user, config_box, source_version, used_config_id, pod_class, ready)
        SELECT ${id}, ${actor.organization_id}, ${pipelineId}, ${triggered_by}, ${actor.user_id}, ${box.seal(runPlace(actor.organization_id, id), pinned)}, ${versionOf(pinned)}, ${used.id}, ${pod_class},
               NOT EXISTS (SELECT 1 FROM runs WHERE pipeline_id = ${pipelineId} AND status IN ('pending', 'running'))
        RETURNING id, pipeline_id, status, triggered_by, created_at, ready)
      SELECT id, pipeline_id, status, triggered_by, created_at, wake_workers(ready::int)::text AS woken FROM added`)
    const { woken: _, ...triggered } = run!
    return triggered
  })
}

/** ORG_MAX_PENDING_RUNS. If there is a limit, triggers of one organization are serialized. */
async function checkPendingLimit(tx: Queryable, actor: Actor, most: number | undefined): Promise<void> {
  if (most === undefined) return
  await lockForTransaction(tx, `pending runs ${actor.organization_id}`)
  const waiting = await countUpTo(
    tx,
    sql`SELECT 1 FROM runs WHERE organization_id = ${actor.organization_id} AND status = 'pending'`,
    most,
  )
  if (waiting >= most)
    throw new AppError(
      'too_many_requests',
      `your organization already has ${most} pending runs, which is the limit; try again when some have started`,
      { 'Retry-After': '60' },
    )
}
