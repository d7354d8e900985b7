/**
 * A config made whole for one run: saved connectors opened, overrides laid over them, the code of a custom source pinned.
 * What has gone since the pipeline was made is a failure of kind `config`, said so that its owner knows what to do.
 */
import { authenticationSecrets, NO_AUTHENTICATION } from '../connectors/authentication.ts'
import { type Authentication, type ColumnChoice, ConnectorError, type Json, type Sync } from '../connectors/contract.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { secretValues } from '../connectors/secrets.ts'
import { isObject } from '../connectors/settings.ts'
import type { Queryable } from '../storage/database.ts'
import { type Place, type SecretBox, SecretLost } from '../storage/secret-box.ts'
import { syncOf } from './config.ts'
import type { DestinationConfig, PipelineConfig, RunOptions, SourceConfig } from './config-shape.ts'
import { isDynamic, loadReferences, openSaved, type References, type SavedRow, wantedBy } from './references.ts'

export interface ResolvedConfig {
  source: {
    name: string
    stream: string
    authentication: Authentication
    config: Record<string, Json>
    /** Set for a custom source: what is run is this, whatever becomes of the source. */
    custom?: { id: string; version: number; code: string }
  }
  destination: { name: string; config: Record<string, Json> }
  sync: Sync
  columns: ColumnChoice
  run: RunOptions
}

export const placeOfPipeline = (row: { id: string; organization_id: string }): Place => ({
  organization_id: row.organization_id,
  column: 'pipelines.config_box',
  row_id: row.id,
})

/** The config of a pipeline's row. Throws a ConnectorError where its key is gone. */
export function openPipelineConfig(
  box: SecretBox,
  row: { id: string; organization_id: string; config_box: Buffer },
): PipelineConfig {
  try {
    return box.open(placeOfPipeline(row), row.config_box)
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    throw new ConnectorError('config', `The pipeline's config can not be opened. ${error.message}.`)
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

/** The same with what it refers to already at hand: the scheduler reads that for many pipelines at once. */
export function resolveWith(config: PipelineConfig, references: References, box: SecretBox): ResolvedConfig {
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

export function resolveSource(source: SourceConfig, references: References, box: SecretBox): ResolvedConfig['source'] {
  const saved = source.saved_connector_id === undefined ? null : openReference('source', references.source, box)
  const name = saved ? references.source!.connector_name : source.name!
  const { authentication, config } = saved ?? source
  const resolved = {
    name,
    stream: source.stream,
    authentication: { ...NO_AUTHENTICATION, ...authentication },
    config: { ...config, ...(saved && source.config) },
  }
  if (findSource(name)) return resolved
  const custom = references.custom
  if (!custom)
    throw broken(`The source '${name}' was deleted; choose another source, or create it again under that name.`)
  if (!isDynamic(custom.streams) && !custom.streams.includes(source.stream))
    throw broken(
      `The source '${name}' no longer has the stream '${source.stream}'; it has ${custom.streams.join(', ')}.`,
    )
  return { ...resolved, custom: { id: custom.id, version: custom.version, code: custom.code } }
}

export function resolveDestination(
  destination: DestinationConfig,
  references: References,
  box: SecretBox,
): ResolvedConfig['destination'] {
  if (destination.saved_connector_id === undefined)
    return { name: destination.name!, config: { ...destination.config } }
  const saved = openReference('destination', references.destination, box)
  return {
    name: references.destination!.connector_name,
    config: { ...saved, ...destination.config } as Record<string, Json>,
  }
}

function openReference(type: 'source' | 'destination', row: SavedRow | null, box: SecretBox) {
  if (row?.type !== type)
    throw broken(`The saved ${type} that this pipeline uses was deleted; choose another one in the pipeline's config.`)
  const { config, lost } = openSaved(box, row)
  if (config === null) throw broken(`${lost}.`)
  return config
}

const broken = (sentence: string) => new ConnectorError('config', sentence)

/** Every secret in it, for the redaction of logs, the surest first. Of a custom source every text may be one. */
export function secretsOf({ source, destination }: Pick<ResolvedConfig, 'source' | 'destination'>): string[] {
  const builtIn = findSource(source.name)
  const found = findDestination(destination.name)
  return [
    ...(builtIn ? authenticationSecrets(source.authentication) : textsOf(source.authentication.params)),
    ...(found ? secretValues(found.settings, destination.config) : textsOf(destination.config)),
    ...(builtIn ? secretValues(builtIn.settings, source.config) : textsOf(source.config)),
  ]
}

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return value === '' ? [] : [value]
  return Array.isArray(value) || isObject(value) ? Object.values(value).flatMap(textsOf) : []
}
