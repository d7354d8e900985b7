/** A config that is tried before it is saved may leave its secrets masked: those of the pipeline being edited are used. */
import { hasMask } from '../connections/masks.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import type { PipelineConfig } from './config-shape.ts'
import { findPipeline, openConfig, type Stores } from './pipelines.ts'
import { restoreStored } from './stored-secrets.ts'

interface Tried {
  source?: unknown
  /** The pipeline whose secrets the masks stand for. */
  pipeline_id?: string
}

/**
 * For a check or a list of streams: one side of a pipeline. Its id stays only if its stored refresh token is used, which
 * then has to be replaced there if the provider rotates it.
 */
export async function restoreProbe<T extends Tried>(stores: Stores, actor: Actor, given: T): Promise<T> {
  const stored = await readStored(stores, actor, given)
  const { pipeline_id: _, ...rest } = stored === null ? given : restoreStored(given, stored, stores.config, '')
  return (keepsToken(given.source) ? { ...rest, pipeline_id: given.pipeline_id } : rest) as T
}

/** A token that was typed in is the one to try; one that is still masked is the stored one, also in the settings of a manifest. */
export function keepsToken(source: unknown): boolean {
  const { authentication, config } = isObject(source) ? source : {}
  if (isObject(authentication) && isObject(authentication.params) && authentication.params.refresh_token !== undefined)
    return authentication.params.refresh_token === MASK
  return hasMaskedToken(config)
}

function hasMaskedToken(settings: unknown): boolean {
  if (!isObject(settings)) return false
  return Object.entries(settings).some(([name, value]) =>
    // The settings of an inline manifest are masked as a whole.
    value === MASK ? name === 'settings' || /token/i.test(name) : hasMaskedToken(value),
  )
}

/** The stored config, or null if the caller names no pipeline or sends no mask. */
export async function readStored(
  { db, box }: Stores,
  actor: Actor,
  { pipeline_id: id, ...given }: { pipeline_id?: string },
): Promise<PipelineConfig | null> {
  if (id === undefined) return null
  const row = await findPipeline(db, actor, id)
  requirePermission(actor, 'pipelines:write', row.domain_id)
  // A mask is what a reader sees: whoever cannot read a secret must not be able to use it either.
  requirePermission(actor, 'pipelines:read', row.domain_id)
  return hasMask(given) ? openConfig(box, row) : null
}
