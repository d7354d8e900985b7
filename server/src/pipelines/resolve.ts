/** Completes a pipeline's config for one run. */
import { type ConnectorReferences, loadReferences, wantedBy } from '../connections/references.ts'
import {
  broken,
  type ResolvedDestination,
  type ResolvedSource,
  resolveDestination,
  resolveSource,
} from '../connections/resolve.ts'
import { type ColumnChoice, ConnectorError, type Sync } from '../connectors/contract.ts'
import { findDestination } from '../connectors/registry.ts'
import type { Queryable } from '../database/database.ts'
import { type Place, type SecretBox, SecretLost } from '../database/secret-box.ts'
import { syncOf } from './config.ts'
import type { PipelineConfig, RunOptions } from './config-shape.ts'

export interface ResolvedConfig {
  source: ResolvedSource
  destination: ResolvedDestination
  sync: Sync
  columns: ColumnChoice
  run: RunOptions
}

export const placeOfPipeline = (row: { id: string; organization_id: string }): Place => ({
  organization_id: row.organization_id,
  column: 'pipelines.config_box',
  row_id: row.id,
})

/** The decrypted config of a pipeline's row. Throws a ConnectorError if its key is gone. */
export function openPipelineConfig(
  box: SecretBox,
  row: { id: string; organization_id: string; config_box: Buffer },
): PipelineConfig {
  try {
    return box.open(placeOfPipeline(row), row.config_box)
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    throw new ConnectorError('config', `The pipeline's config cannot be decrypted. ${error.message}.`)
  }
}

export async function resolveConfig(
  db: Queryable,
  box: SecretBox,
  organizationId: string,
  config: PipelineConfig,
): Promise<ResolvedConfig> {
  return resolveWith(config, await loadReferences(db, organizationId, wantedBy(config)), box)
}

/** The same with references already loaded: the scheduler loads them for many pipelines at once. */
export function resolveWith(config: PipelineConfig, references: ConnectorReferences, box: SecretBox): ResolvedConfig {
  const destination = resolveDestination(config.destination, references, box)
  const found = findDestination(destination.name)
  if (!found) throw broken(`The destination connector '${destination.name}' no longer exists; choose another one.`)
  return {
    source: resolveSource(config.source, references, box),
    destination,
    sync: syncOf(config, found),
    columns: config.columns ?? {},
    run: config.run ?? {},
  }
}
