/**
 * Completes one side of a config for a run or a probe: saved connectors are decrypted, overrides applied, the code of a
 * custom source pinned. If something was deleted since, this is a failure of kind `config` with a message that tells
 * the owner what to do.
 */
import { authenticationSecrets, NO_AUTHENTICATION } from '../connectors/authentication/authentication.ts'
import { type Authentication, ConnectorError } from '../connectors/contract.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { secretValues } from '../connectors/settings/secrets.ts'
import { isObject } from '../connectors/settings/settings.ts'
import type { SecretBox } from '../database/secret-box.ts'
import type { SourceLanguage } from '../executors/messages.ts'
import type { Json } from '../json/json.ts'
import { nameStreams } from './endpoint-faults.ts'
import type { DestinationConfig, SourceConfig } from './endpoint-shape.ts'
import { type ConnectorReferences, isDynamic, openSaved, type SavedRow } from './references.ts'

export interface ResolvedSource {
  name: string
  stream: string
  authentication: Authentication
  config: Record<string, Json>
  /** The saved connector that authentication and config came from, if any. */
  saved_connector_id?: string
  /** The settings of the pipeline itself, if there is a saved connector. */
  overrides?: Record<string, Json>
  /** Set for a custom source: this code is run, whatever happens to the source. */
  custom?: { id: string; version: number; code: string; language: SourceLanguage }
}

export interface ResolvedDestination {
  name: string
  config: Record<string, Json>
  saved_connector_id?: string
  overrides?: Record<string, Json>
}

export function resolveSource(source: SourceConfig, references: ConnectorReferences, box: SecretBox): ResolvedSource {
  const saved = source.saved_connector_id === undefined ? null : openReference('source', references.source, box)
  const name = saved ? references.source!.connector_name : source.name!
  const { authentication, config } = saved ?? source
  const resolved = {
    name,
    stream: source.stream,
    authentication: { ...NO_AUTHENTICATION, ...authentication },
    config: { ...config, ...(saved && source.config) },
    ...(saved && { saved_connector_id: references.source!.id, overrides: { ...source.config } }),
  }
  if (findSource(name)) return resolved
  const custom = references.custom
  if (!custom)
    throw broken(`The source '${name}' was deleted; choose another source, or create it again under that name.`)
  if (!isDynamic(custom.streams) && !custom.streams.includes(source.stream)) {
    const known = nameStreams(source.stream, custom.streams)
    throw broken(`The source '${name}' no longer has the stream '${source.stream}'; ${known.replace(/[^?]$/, '$&.')}`)
  }
  return {
    ...resolved,
    custom: { id: custom.id, version: custom.version, code: custom.code, language: custom.language },
  }
}

export function resolveDestination(
  destination: DestinationConfig,
  references: ConnectorReferences,
  box: SecretBox,
): ResolvedDestination {
  if (destination.saved_connector_id === undefined)
    return { name: destination.name!, config: { ...destination.config } }
  const saved = openReference('destination', references.destination, box)
  return {
    name: references.destination!.connector_name,
    config: { ...saved, ...destination.config } as Record<string, Json>,
    saved_connector_id: references.destination!.id,
    overrides: { ...destination.config },
  }
}

function openReference(type: 'source' | 'destination', row: SavedRow | null, box: SecretBox) {
  if (row?.type !== type)
    throw broken(`The saved ${type} that this pipeline uses was deleted; choose another one in the pipeline's config.`)
  const { config, lost } = openSaved(box, row)
  if (config === null) throw broken(`${lost}.`)
  return config
}

export const broken = (sentence: string) => new ConnectorError('config', sentence)

/** Every secret in it, for the redaction of logs, likeliest first. In a custom source every text may be a secret. */
export function secretsOf({
  source,
  destination,
}: {
  source: Omit<ResolvedSource, 'custom'>
  destination: ResolvedDestination
}): string[] {
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
