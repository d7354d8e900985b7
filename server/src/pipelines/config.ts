/**
 * Everything that can be wrong with a pipeline's `config`, found before anything is stored. Each fault is one sentence that
 * begins with its path; all of them go into one `detail`, a line each.
 */
import { findAuthenticationFaults } from '../connectors/authentication.ts'
import type { Destination, Sync, WriteMode } from '../connectors/contract.ts'
import { nearest } from '../connectors/nearest.ts'
import { destinations, findDestination, sources } from '../connectors/registry.ts'
import { findOverrideFaults, findSettingsFaults, isObject } from '../connectors/settings.ts'
import { AppError } from '../errors.ts'
import type { SecretBox } from '../storage/secret-box.ts'
import { configFrame, frames, type PipelineConfig } from './config-shape.ts'
import { findSizeFault } from './limits.ts'
import { findTraits, openSaved, type References, type SavedRow, type SourceTraits } from './references.ts'

/** What the columns of a pipeline's row say of its config, so that lists and look-ups need not open it. */
export interface ConfigSummary {
  source_name: string
  stream: string
  destination_name: string
  saved_source_id: string | null
  saved_destination_id: string | null
}

const MAX_FAULTS = 10

export const refuse = (faults: readonly string[]): AppError =>
  new AppError('invalid_input', faults.slice(0, MAX_FAULTS).join('\n'))

export function checkConfig(
  given: unknown,
  references: References,
  box: SecretBox,
): { config: PipelineConfig; summary: ConfigSummary } {
  const size = findSizeFault(given, 'config')
  if (size !== null) throw refuse([size])
  const faults = findFrameFaults(given)
  if (faults.length > 0) throw refuse(faults)
  const config = given as PipelineConfig
  const source = checkSource(config, references, box, faults)
  const destination = checkDestination(config, references, box, faults)
  if (source && destination) faults.push(...findSyncFaults(config, source, destination), ...findColumnFaults(config))
  if (faults.length > 0) throw refuse(faults)
  return {
    config,
    summary: {
      source_name: source!.name,
      stream: config.source.stream,
      destination_name: destination!.name,
      saved_source_id: references.source?.id ?? null,
      saved_destination_id: references.destination?.id ?? null,
    },
  }
}

function findFrameFaults(given: unknown): string[] {
  if (!isObject(given)) return ['config: must be an object with source and destination']
  const faults = findSettingsFaults(configFrame, given, 'config')
  for (const part of ['source', 'destination'] as const) {
    const value = given[part]
    if (!isObject(value)) continue
    const saved = Object.hasOwn(value, 'saved_connector_id')
    if (saved && Object.hasOwn(value, 'name'))
      faults.push(`config.${part}: give either name or saved_connector_id, not both`)
    else if (saved && Object.hasOwn(value, 'authentication'))
      faults.push(`config.${part}.authentication: is fixed by the saved connector; leave it out`)
    else faults.push(...findSettingsFaults(frames[part][saved ? 'saved' : 'inline'], value, `config.${part}`))
  }
  return faults
}

function checkSource(
  { source }: PipelineConfig,
  references: References,
  box: SecretBox,
  faults: string[],
): SourceTraits | null {
  const path = 'config.source'
  const saved = source.saved_connector_id !== undefined
  if (saved && !isRightType('source', references.source, path, faults)) return null
  const name = saved ? references.source!.connector_name : source.name!
  const traits = findTraits(name, references.custom)
  if (!traits) {
    faults.push(saved ? gone('source', name, path) : unknownConnector('source', name, `${path}.name`))
    return null
  }
  if (traits.streams !== 'dynamic' && !traits.streams.includes(source.stream))
    faults.push(
      `${path}.stream: no stream '${source.stream.slice(0, 100)}' in ${name}; it has ${traits.streams.join(', ')}`,
    )
  if (saved) faults.push(...findSavedFaults(references.source!, traits.settings, source.config, path, box))
  else {
    if (source.authentication !== undefined)
      faults.push(...findAuthenticationFaults(source.authentication, traits.auth_types, `${path}.authentication`))
    if (traits.settings) faults.push(...findSettingsFaults(traits.settings, source.config ?? {}, `${path}.config`))
  }
  return traits
}

function checkDestination(
  { destination }: PipelineConfig,
  references: References,
  box: SecretBox,
  faults: string[],
): Destination | null {
  const path = 'config.destination'
  const saved = destination.saved_connector_id !== undefined
  if (saved && !isRightType('destination', references.destination, path, faults)) return null
  const name = saved ? references.destination!.connector_name : destination.name!
  const found = findDestination(name)
  if (!found) {
    faults.push(saved ? gone('destination', name, path) : unknownConnector('destination', name, `${path}.name`))
    return null
  }
  if (saved) faults.push(...findSavedFaults(references.destination!, found.settings, destination.config, path, box))
  else faults.push(...findSettingsFaults(found.settings, destination.config ?? {}, `${path}.config`))
  return found
}

function isRightType(type: 'source' | 'destination', row: SavedRow | null, path: string, faults: string[]): boolean {
  if (row?.type === type) return true
  faults.push(
    row
      ? `${path}.saved_connector_id: '${row.name}' is a saved ${row.type}; a saved ${type} is needed here`
      : `${path}.saved_connector_id: there is no saved ${type} with this id`,
  )
  return false
}

/** The settings beside a saved connector, and whether both together are complete. */
function findSavedFaults(
  row: SavedRow,
  settings: SourceTraits['settings'],
  override: unknown,
  path: string,
  box: SecretBox,
): string[] {
  const { config, lost } = openSaved(box, row)
  if (config === null) return [`${path}.saved_connector_id: ${lost}`]
  if (settings === null)
    return Object.keys(override ?? {}).map(
      (name) => `${path}.config.${name}: is fixed by the saved connector; leave it out`,
    )
  const faults = override === undefined ? [] : findOverrideFaults(settings, override, `${path}.config`)
  if (faults.length > 0) return faults
  const stored = row.type === 'source' ? config.config : config
  return findSettingsFaults(settings, { ...stored, ...(override as object) }, `${path}.config`)
}

const gone = (type: 'source' | 'destination', name: string, path: string) =>
  `${path}.saved_connector_id: its connector '${name}' is no ${type} of this organization any more`

export function unknownConnector(type: 'source' | 'destination', name: string, path: string): string {
  const known = (type === 'source' ? sources : destinations).map((connector) => connector.name)
  const near = nearest(name, known)
  const hint =
    near === null
      ? `use ${known.join(', ')}${type === 'source' ? ' or a custom source' : ''}`
      : `did you mean '${near}'?`
  return `${path}: there is no ${type} '${name.slice(0, 100)}'; ${hint}`
}

/** `config.sync` with the defaults applied. An incremental read holds only what is new, so it never replaces by default. */
export function syncOf(config: PipelineConfig, destination: Destination): Sync {
  const { mode = 'full_refresh', primary_key = [], ...given } = config.sync ?? {}
  const offered = destination.capabilities.write
  const wanted: WriteMode[] =
    mode === 'full_refresh' ? ['replace', 'append'] : primary_key.length > 0 ? ['upsert', 'append'] : ['append']
  return {
    mode,
    cursor_field: given.cursor_field ?? null,
    write: given.write ?? wanted.find((write) => offered.includes(write)) ?? offered[0]!,
    primary_key,
    schema_change: given.schema_change ?? 'evolve',
    lookback_seconds: given.lookback_seconds ?? 0,
    allow_empty: given.allow_empty ?? false,
  }
}

function findSyncFaults(config: PipelineConfig, source: SourceTraits, destination: Destination): string[] {
  const sync = syncOf(config, destination)
  const { write, commits } = destination.capabilities
  const faults: string[] = []
  const fault = (field: string, sentence: string) => faults.push(`config.sync.${field}: ${sentence}`)
  if (!write.includes(sync.write))
    fault('write', `${destination.name} can not ${sync.write}; it can ${write.join(', ')}`)
  if (sync.write === 'upsert' && sync.primary_key.length === 0)
    fault('primary_key', 'is required with upsert: name the columns that tell one record from another')
  if (sync.mode === 'incremental') {
    if (!source.capabilities.incremental)
      fault('mode', `${source.name} can not be read incrementally; use full_refresh`)
    else if (sync.cursor_field === null && !source.capabilities.own_cursor)
      fault(
        'cursor_field',
        `is required to read ${source.name} incrementally: name a column that grows with every change`,
      )
    if (sync.write === 'replace' && commits === 'mark')
      fault(
        'write',
        'replace would drop what earlier incremental runs brought; use append, or upsert with a primary_key',
      )
  } else if (sync.lookback_seconds > 0) fault('lookback_seconds', 'needs mode incremental')
  if (sync.mode === 'incremental' && sync.lookback_seconds > 0 && sync.write === 'append')
    fault('lookback_seconds', 'reads records again, which append would load twice; use upsert with a primary_key')
  return faults
}

function findColumnFaults({ columns = {}, sync = {} }: PipelineConfig): string[] {
  const { include, exclude = [], rename = {} } = columns
  const faults: string[] = []
  const both = exclude.find((name) => include?.includes(name))
  if (both !== undefined) faults.push(`config.columns.exclude: '${both}' is in include too; name it in one of them`)
  const targets = Object.values(rename)
  const twice = targets.find((name, index) => targets.indexOf(name) !== index)
  if (twice !== undefined) faults.push(`config.columns.rename: two columns would be named '${twice}'`)
  for (const key of sync.primary_key ?? []) {
    const origin = Object.keys(rename).find((name) => rename[name] === key) ?? key
    if (exclude.includes(origin) || (include && !include.includes(origin)))
      faults.push(`config.sync.primary_key: '${key}' is left out by config.columns`)
  }
  return faults
}
