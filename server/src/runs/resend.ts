/**
 * Sends the quarantine of a run again, to the destination that its pipeline has now. It is a run of the pipeline like any
 * other, exactly once, with the quarantine as its source; the pipeline's state and its mark in the destination are left
 * alone. What is refused again is in the quarantine of that run.
 */
import { findDestination } from '../connectors/registry.ts'
import { AppError } from '../errors.ts'
import type { ResolvedConfig } from '../pipelines/resolve.ts'
import type { Actor } from '../tenancy/actor.ts'
import { findQuarantine } from './quarantine.ts'
import { type TriggeredRun, type TriggerServices, triggerAs } from './trigger.ts'

export async function resendQuarantine(services: TriggerServices, actor: Actor, runId: string): Promise<TriggeredRun> {
  const { pipeline_id } = await findQuarantine(services.db, actor, runId)
  return triggerAs(services, actor, pipeline_id, {
    triggered_by: 'resend',
    details: { resends: runId },
    adapt: (config) => ({ ...readQuarantine(config), resends: runId }),
  })
}

/** Records are sent as they were quarantined, and those that were loaded meanwhile must stay. */
function readQuarantine(config: ResolvedConfig): ResolvedConfig {
  const { source, destination, sync } = config
  const write = sync.write === 'replace' ? 'append' : sync.write
  if (!findDestination(destination.name)?.capabilities.write.includes(write))
    throw new AppError('conflict', `${destination.name} cannot append, so records cannot be sent to it again`)
  return {
    ...config,
    source: { name: 'quarantine', stream: source.stream, authentication: { type: 'none', params: {} }, config: {} },
    columns: {},
    sync: { ...sync, mode: 'full_refresh', cursor_field: null, lookback_seconds: 0, write, max_error_share: 1 },
  }
}
