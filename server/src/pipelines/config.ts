/**
 * Checks a pipeline's `config` before anything is stored. Each fault is one sentence that begins with its path; all of
 * them go into one `detail`, one per line.
 */

import type { Config } from '../config/config.ts'
import { findSizeFault } from '../connections/config-size.ts'
import { checkDestination, checkSource, findEndpointFaults, type SharedChecks } from '../connections/endpoint-faults.ts'
import type { SourceConfig } from '../connections/endpoint-shape.ts'
import { refuse } from '../connections/faults.ts'
import type { References, SourceTraits } from '../connections/references.ts'
import type { Authentication, Destination, Sync, WriteMode } from '../connectors/contract.ts'
import { findSettingsFaults, isObject } from '../connectors/settings/settings.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { DEFAULT_SHARE } from '../engine/quarantine.ts'
import type { Json } from '../json/json.ts'
import { configFrame, type PipelineConfig, type RunOptions } from './config-shape.ts'

/** Values from the config in plain columns of the pipeline's row, so that lists and lookups need not decrypt it. */
export interface ConfigSummary {
  source_name: string
  stream: string
  destination_name: string
  saved_source_id: string | null
  saved_destination_id: string | null
}

export function checkConfig(
  given: unknown,
  references: References,
  box: SecretBox,
  limits: RunLimits & { shared?: SharedChecks },
): { config: PipelineConfig; summary: ConfigSummary } {
  const { faults, source, destination } = inspectConfig(given, references, box, limits)
  if (faults.length > 0) throw refuse(faults)
  const config = given as PipelineConfig
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

interface Inspected {
  faults: string[]
  /** Null if it is unclear which one is meant. */
  source: SourceTraits | null
  destination: Destination | null
}

/** Everything wrong with a config. One part that is malformed does not hide what is wrong with the others. */
export function inspectConfig(
  given: unknown,
  references: References,
  box: SecretBox,
  { shared, ...limits }: RunLimits & { shared?: SharedChecks },
): Inspected {
  const size = findSizeFault(given, 'config')
  const faults = size === null ? findFrameFaults(given) : [size]
  if (size !== null || !isObject(given)) return { faults, source: null, destination: null }
  const malformed = faults.map((fault) => /^config\.(\w+)/.exec(fault)?.[1])
  const isSound = (...parts: string[]) => !parts.some((part) => malformed.includes(part))
  const config = given as unknown as PipelineConfig
  const read = (part: 'source' | 'destination') =>
    faults.some((fault) => new RegExp(`^config\\.${part}\\.(name|saved_connector_id):`).test(fault))
      ? null
      : readSide(given[part])
  const [from, to] = [read('source'), read('destination')]
  const source = from && checkSource(from, { references, box, path: 'config.source', faults, shared })
  const destination = to && checkDestination(to, { references, box, path: 'config.destination', faults })
  if (source && destination && isSound('sync')) {
    faults.push(...findSyncFaults(config, source, destination))
    if (isSound('columns')) faults.push(...findColumnFaults(config))
  }
  if (isSound('run')) faults.push(...findRunFaults(config, limits), ...findOutputFaults(config, destination))
  return { faults, source, destination }
}

/** What can be checked of a side, although something else may be wrong with it; null if its settings cannot. */
function readSide(side: unknown): (Omit<SourceConfig, 'stream'> & { stream?: string }) | null {
  if (!isObject(side)) return null
  const { name, saved_connector_id, stream, authentication, config } = side
  const isNamed = [name, saved_connector_id].filter((value) => typeof value === 'string' && value !== '').length === 1
  if (!isNamed || (config !== undefined && !isObject(config))) return null
  return {
    ...(typeof name === 'string' && { name }),
    ...(typeof saved_connector_id === 'string' && { saved_connector_id }),
    ...(typeof stream === 'string' && { stream }),
    ...(isObject(authentication) && { authentication: authentication as unknown as Authentication }),
    ...(isObject(config) && { config: config as Record<string, Json> }),
  }
}

/** The operator's limits for every run. */
export type RunLimits = Pick<Config, 'RUN_TIMEOUT_MINUTES' | 'POD_CLASSES'>

function findRunFaults({ run = {} }: PipelineConfig, { RUN_TIMEOUT_MINUTES: most, POD_CLASSES }: RunLimits): string[] {
  const faults = findClassFaults(run, POD_CLASSES)
  if ((run.timeout_minutes ?? 0) > most)
    faults.push(`config.run.timeout_minutes: must be at most ${most}; an operator can raise RUN_TIMEOUT_MINUTES`)
  return faults
}

function findClassFaults({ isolation = 'shared', resources }: RunOptions, classes: readonly string[]): string[] {
  if (isolation === 'shared')
    return resources === undefined ? [] : ['config.run.resources: needs isolation pod; remove it, or add that']
  if (classes.length === 0)
    return ['config.run.isolation: must be shared; an operator can offer pod by setting POD_CLASSES']
  if (resources === undefined || classes.includes(resources)) return []
  return [`config.run.resources: must be one of ${classes.join(', ')}; an operator can add one to POD_CLASSES`]
}

/** The file is the output, and the next run goes on from it. */
function findOutputFaults({ run = {} }: PipelineConfig, destination: Destination | null): string[] {
  if (run.keep_output !== false || !destination?.buildOutput) return []
  return [`config.run.keep_output: must be true with ${destination.name}: its file is the output of the run`]
}

function findFrameFaults(given: unknown): string[] {
  if (!isObject(given)) return ['config: must be an object with source and destination']
  const faults = findSettingsFaults(configFrame, given, 'config')
  for (const part of ['source', 'destination'] as const)
    if (isObject(given[part])) faults.push(...findEndpointFaults(part, given[part], `config.${part}`))
  return faults
}

/**
 * `config.sync` with defaults applied. An incremental read only contains new records, so it never replaces by default.
 */
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
    on_error: given.on_error ?? 'fail',
    max_error_share: given.max_error_share ?? DEFAULT_SHARE,
  }
}

function findSyncFaults(config: PipelineConfig, source: SourceTraits, destination: Destination): string[] {
  const sync = syncOf(config, destination)
  const { write, commits, quarantine } = destination.capabilities
  const faults: string[] = []
  const fault = (field: string, sentence: string) => faults.push(`config.sync.${field}: ${sentence}`)
  if (!write.includes(sync.write))
    fault('write', `${destination.name} cannot ${sync.write}; it can ${write.join(', ')}`)
  if (sync.write === 'upsert' && sync.primary_key.length === 0)
    fault('primary_key', 'is required with upsert: name the columns that identify a record')
  if (sync.on_error === 'quarantine' && !quarantine)
    fault('on_error', `${destination.name} does not refuse single records, so there is nothing to quarantine; use fail`)
  if (config.sync?.max_error_share !== undefined && sync.on_error !== 'quarantine')
    fault('max_error_share', 'needs on_error quarantine')
  if (sync.mode === 'incremental') {
    if (!source.capabilities.incremental) fault('mode', `${source.name} cannot be read incrementally; use full_refresh`)
    else if (sync.cursor_field === null && !source.capabilities.own_cursor)
      fault(
        'cursor_field',
        `is required to read ${source.name} incrementally: name a column that grows with every change`,
      )
    if (sync.write === 'replace' && (commits !== 'output' || destination.buildOutput))
      fault(
        'write',
        'replace would drop what earlier incremental runs loaded; use append, or upsert with a primary_key',
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
  if (both !== undefined)
    faults.push(`config.columns.exclude: '${both}' is also in include; name it in only one of them`)
  const targets = Object.values(rename)
  const twice = targets.find((name, index) => targets.indexOf(name) !== index)
  if (twice !== undefined) faults.push(`config.columns.rename: two columns would be named '${twice}'`)
  for (const key of sync.primary_key ?? []) {
    const origin = Object.keys(rename).find((name) => rename[name] === key) ?? key
    if (exclude.includes(origin) || (include && !include.includes(origin)))
      faults.push(`config.sync.primary_key: '${key}' is excluded by config.columns`)
  }
  return faults
}
