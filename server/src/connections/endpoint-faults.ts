/** Checks the two sides of a config: which connector is used, and whether its settings are valid and complete. */
import { findAuthenticationFaults } from '../connectors/authentication/authentication.ts'
import { ConnectorError, type Destination } from '../connectors/contract.ts'
import { destinations, findDestination, sources } from '../connectors/registry.ts'
import { applyDefaults, type Fields, findOverrideFaults, findSettingsFaults } from '../connectors/settings/settings.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { nearest } from '../nearest.ts'
import { type DestinationConfig, frames, type SourceConfig } from './endpoint-shape.ts'
import { findTraits, openSaved, type References, type SavedRow, type SourceTraits } from './references.ts'

/** The shape of one side, inline or saved. */
export function findEndpointFaults(
  part: 'source' | 'destination' | 'probed_source',
  value: Fields,
  path: string,
): string[] {
  const saved = Object.hasOwn(value, 'saved_connector_id')
  if (saved && Object.hasOwn(value, 'name')) return [`${path}: give either name or saved_connector_id, not both`]
  if (saved && Object.hasOwn(value, 'authentication'))
    return [`${path}.authentication: is set by the saved connector; leave it out`]
  return findSettingsFaults(frames[part][saved ? 'saved' : 'inline'], value, path)
}

interface Inspection {
  references: References
  box: SecretBox
  path: string
  /** What is found is added here. */
  faults: string[]
  shared?: SharedChecks | undefined
}

/** For a request that checks one source for many streams: what does not depend on the stream is found once, by its path. */
export type SharedChecks = Map<string, Prepared>

/** Settings with defaults applied, or what is wrong with them. They are not changed afterwards. */
type Prepared = { faults: string[]; settings: null } | { faults: null; settings: Fields }

/** The source of a config, or null if it is unclear which one is meant. */
export function checkSource(
  source: Omit<SourceConfig, 'stream'> & { stream?: string },
  { references, box, path, faults, shared }: Inspection,
): SourceTraits | null {
  const saved = source.saved_connector_id !== undefined
  if (saved && !isRightType('source', references.source, path, faults)) return null
  const name = saved ? references.source!.connector_name : source.name!
  const traits = findTraits(name, references.custom)
  if (!traits) {
    faults.push(saved ? gone('source', name, path) : unknownConnector('source', name, `${path}.name`))
    return null
  }
  const { stream } = source
  if (stream !== undefined && traits.streams !== 'dynamic' && !traits.streams.includes(stream))
    faults.push(
      `${path}.stream: ${name} has no stream '${stream.slice(0, 100)}'; ${nameStreams(stream, traits.streams)}`,
    )
  if (!saved && source.authentication !== undefined)
    faults.push(...findAuthenticationFaults(source.authentication, traits.auth_types, `${path}.authentication`))
  const prepared =
    shared?.get(path) ??
    (saved
      ? prepareSaved(references.source!, traits, source.config, { path, box })
      : prepare(traits, source.config ?? {}, `${path}.config`))
  shared?.set(path, prepared)
  faults.push(...findUnusable(traits, prepared, stream, `${path}.config`))
  return traits
}

/** The names to offer instead of an unknown stream. A custom source may have a thousand. */
export function nameStreams(stream: string, known: readonly string[]): string {
  const near = nearest(stream, known.slice(0, STREAMS_COMPARED))
  if (near !== null) return `did you mean '${near}'?`
  const rest = known.length > STREAMS_NAMED ? ` and ${known.length - STREAMS_NAMED} more` : ''
  return `it has ${known.slice(0, STREAMS_NAMED).join(', ')}${rest}`
}

const STREAMS_NAMED = 10
/** Comparing takes time, and the names are a tenant's. */
const STREAMS_COMPARED = 100

/** A run that a source names and that the caller cannot read. Settings of a saved connector are not repeated. */
export function describeMissingRun({ saved_connector_id, config }: SourceConfig, id: string, path: string): string {
  if (saved_connector_id !== undefined)
    return `${path}.saved_connector_id: this saved source reads the output of a run, and there is no such run`
  const [setting] = Object.entries(config ?? {}).find(([, value]) => String(value).toLowerCase() === id) ?? []
  return setting === undefined
    ? `${path}.config: there is no run with the id ${id}`
    : `${path}.config.${setting}: there is no run with this id`
}

export function checkDestination(
  destination: DestinationConfig,
  { references, box, path, faults }: Inspection,
): Destination | null {
  const saved = destination.saved_connector_id !== undefined
  if (saved && !isRightType('destination', references.destination, path, faults)) return null
  const name = saved ? references.destination!.connector_name : destination.name!
  const found = findDestination(name)
  if (!found) {
    faults.push(saved ? gone('destination', name, path) : unknownConnector('destination', name, `${path}.name`))
    return null
  }
  const prepared = saved
    ? prepareSaved(references.destination!, found, destination.config, { path, box })
    : prepare(found, destination.config ?? {}, `${path}.config`)
  faults.push(...findUnusable(found, prepared, undefined, `${path}.config`))
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

/** Checks the overrides of a saved connector, and whether both together are complete. */
function prepareSaved(
  row: SavedRow,
  connector: Checkable,
  override: unknown,
  { path, box }: Pick<Inspection, 'path' | 'box'>,
): Prepared {
  const { config, lost } = openSaved(box, row)
  if (config === null) return { faults: [`${path}.saved_connector_id: ${lost}`], settings: null }
  const faults = override === undefined ? [] : findOverrideFaults(connector.settings, override, `${path}.config`)
  if (faults.length > 0) return { faults, settings: null }
  const stored = row.type === 'source' ? (config.config ?? {}) : config
  return prepare(connector, { ...stored, ...(override as object) }, `${path}.config`)
}

type Checkable = Pick<SourceTraits, 'settings' | 'canonical'>

/** What is wrong with the settings by their schema, and by the rules that it cannot express. */
export function findConfigFaults(connector: Checkable, config: unknown, stream: string | undefined, path: string) {
  return findUnusable(connector, prepare(connector, config, path), stream, path)
}

function prepare({ settings }: Checkable, config: unknown, path: string): Prepared {
  const faults = findSettingsFaults(settings, config, path)
  return faults.length > 0 ? { faults, settings: null } : { faults: null, settings: applyDefaults(settings, config) }
}

/** A connector throws where settings that are each valid cannot be used together: two addresses, or none. */
function findUnusable({ canonical }: Checkable, prepared: Prepared, stream = '', path: string): string[] {
  if (prepared.faults !== null) return prepared.faults
  try {
    canonical?.(prepared.settings, stream)
    return []
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return [`${path}: ${error.message.replace(/\.$/, '')}`]
  }
}

const gone = (type: 'source' | 'destination', name: string, path: string) =>
  `${path}.saved_connector_id: its connector '${name}' is no longer a ${type} of this organization`

export function unknownConnector(type: 'source' | 'destination', name: string, path: string): string {
  const known = (type === 'source' ? sources : destinations).map((connector) => connector.name)
  const near = nearest(name, known)
  const hint =
    near === null
      ? `use ${known.join(', ')}${type === 'source' ? ' or a custom source' : ''}`
      : `did you mean '${near}'?`
  return `${path}: there is no ${type} '${name.slice(0, 100)}'; ${hint}`
}
