/**
 * Everything that is wrong with an object, once something is. Carrying out stops at the first check that fails, and leaves out
 * what refers to an object with a problem; a person wants to correct all of it at once.
 */
import { findSizeFault } from '../connections/config-size.ts'
import { requireKeptInPlace, type SecretRules } from '../connections/kept-secrets.ts'
import { MISSING_SECRET } from '../connections/masks.ts'
import { loadReferences, wantedBy } from '../connections/references.ts'
import { findSavedFaults } from '../connections/saved-connectors.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { type Fields, isObject } from '../connectors/settings/settings.ts'
import type { Queryable } from '../database/database.ts'
import { AppError } from '../errors.ts'
import { inspectConfig } from '../pipelines/config.ts'
import type { PipelineConfig } from '../pipelines/config-shape.ts'
import type { Stores } from '../pipelines/pipelines.ts'
import { checkSchedule, findTimezoneFault } from '../pipelines/schedule.ts'
import { type Actor, forbidden } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import type { ChangedField } from './compare.ts'
import { namesIn, SIDES, type Side, toIds } from './connection-names.ts'
import type { ConnectionName, Current, CurrentPipeline } from './current.ts'
import { type Failed, failedConnection, failedDomain, failedSource } from './failed.ts'
import type { Action } from './plan.ts'
import { type Problem, pointerTo, readFaults } from './problems.ts'
import { type Kind, LONGEST_SCHEDULE, LONGEST_TIMEZONE } from './shape.ts'

/** An object of the request that has a problem, or may have one. */
export interface Doubtful {
  kind: Kind
  index: number
  /** Of any shape. */
  object: unknown
  action: Action
  fields: readonly ChangedField[]
}

export interface Surroundings {
  tx: Queryable
  stores: Omit<Stores, 'db'>
  actor: Actor
  current: Current
  failed: Failed
  /** By their names, also of those that were just created. */
  domainIds: ReadonlyMap<string, string>
  connections: readonly ConnectionName[]
}

/** Whether a field of the object is new or changed: the others are as they are stored. */
export const changedParts =
  ({ action, fields }: Pick<Doubtful, 'action' | 'fields'>) =>
  (path: string): boolean =>
    action === 'create' || fields.some((field) => field.path === path || field.path.startsWith(`${path}.`))

export const describeMissingDomain = (name: string): string =>
  `domain: there is no domain '${name.slice(0, 100)}'; describe it in domains`

export async function findAllProblems(given: Surroundings, doubtful: Doubtful): Promise<Problem[]> {
  const { kind, index, object } = doubtful
  if (!isObject(object)) return []
  const place = { object, at: ['objects', kind, index] }
  if (kind === 'connections') return findInConnection(given, place, changedParts(doubtful))
  if (kind === 'pipelines') return findInPipeline(given, place, changedParts(doubtful))
  return []
}

interface Place {
  object: Fields
  at: (string | number)[]
}

async function findInConnection(
  { tx, actor, current, failed }: Surroundings,
  { object, at }: Place,
  changes: (path: string) => boolean,
): Promise<Problem[]> {
  const { name, type, connector_name, config = {} } = object
  if (type !== 'source' && type !== 'destination') return []
  if (typeof connector_name !== 'string' || !changes('config') || !can(actor, 'connectors:write')) return []
  if (type === 'source' && failed.has(failedSource(connector_name))) return []
  const size = findSizeFault(config, 'config')
  if (size !== null) return readFaults(size, object, at)
  const stored = current.connections.find((each) => each.type === type && each.name === name)
  const { value, missing } = restoreKnown(
    config,
    stored?.connector_name === connector_name ? stored.config : undefined,
    [...at, 'config'],
  )
  const faults = await findSavedFaults(tx, actor, { type, connector_name }, value)
  return [
    ...missing,
    ...except(
      missing.map((problem) => problem.pointer),
      readFaults(faults.join('\n'), object, at),
    ),
  ]
}

async function findInPipeline(
  given: Surroundings,
  place: Place,
  changes: (path: string) => boolean,
): Promise<Problem[]> {
  const { actor, domainIds, failed, current } = given
  const { domain, config } = place.object
  const name = typeof domain === 'string' ? domain.trim() : null
  const isUnknown = name !== null && !domainIds.has(name)
  const faults = [
    ...(isUnknown && changes('domain') && !failed.has(failedDomain(name)) ? [describeMissingDomain(name)] : []),
    ...findTimeFaults(place.object, changes),
  ]
  const problems = readFaults(faults.join('\n'), place.object, place.at)
  if (!changes('config') || !isObject(config)) return problems
  const size = findSizeFault(config, 'config')
  if (size !== null) return [...problems, ...readFaults(size, place.object, place.at)]
  const stored = current.pipelines.find((pipeline) => pipeline.name === place.object.name)
  const concerned = [name === null ? null : (domainIds.get(name) ?? null), ...(stored ? [stored.domain_id] : [])]
  // What is said of a config may depend on the saved connections that it names, and on the secrets that it keeps.
  if (!concerned.every((domainId) => can(actor, 'pipelines:write', domainId))) {
    if (isUnknown) return problems
    const { message } = forbidden('pipelines:write', actor)
    return [...problems, { pointer: pointerTo(...place.at), message, forbidden: true }]
  }
  return [...problems, ...(await findInConfig(given, place, config, stored?.config ?? null))]
}

/** What is too long is reported for that already, and comparing it with all time zones takes seconds. */
function findTimeFaults({ schedule, timezone }: Fields, changes: (path: string) => boolean): string[] {
  const zone = isTextUpTo(LONGEST_TIMEZONE, timezone) ? timezone : null
  const zoneFault = zone === null || !changes('timezone') ? null : findTimezoneFault(zone)
  const faults = zoneFault === null ? [] : [`timezone: ${zoneFault}`]
  if (!isTextUpTo(LONGEST_SCHEDULE, schedule) || schedule.trim() === '' || !changes('schedule')) return faults
  try {
    checkSchedule(schedule.trim(), zoneFault === null ? zone : null, new Date())
    return faults
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return [...faults, error.message]
  }
}

const isTextUpTo = (longest: number, value: unknown): value is string =>
  typeof value === 'string' && value.length <= longest

/** Stands for a saved connector that is not known: its side is checked as far as that goes. */
const UNKNOWN = '00000000-0000-0000-0000-000000000000'

async function findInConfig(
  { tx, stores, actor, failed, connections }: Surroundings,
  { object, at }: Place,
  config: Fields,
  stored: CurrentPipeline['config'],
): Promise<Problem[]> {
  const named = toIds(config, connections, [...at, 'config'])
  const pointer = (...steps: string[]) => pointerTo(...at, 'config', ...steps)
  // Reported where they are described.
  const excused = namesIn(config)
    .filter(({ side, name }) => failed.has(failedConnection(side, String(name))))
    .map(({ side }) => pointer(side, 'connection'))
  const source = isObject(config.source) ? config.source.name : undefined
  if (typeof source === 'string' && failed.has(failedSource(source))) excused.push(pointer('source', 'name'))
  const unnamed = named.problems.filter((problem) => !excused.includes(problem.pointer))
  const sided = withSides(named.config)
  const moved = stored === null ? [] : findMovedSecrets(stores.config, sided, stored)
  const kept = { ...stored, ...Object.fromEntries(moved.map(({ side }) => [side, undefined])) }
  const { value, missing } = restoreKnown(sided, kept, [...at, 'config'])
  const references = await loadReferences(tx, actor.organization_id, wantedBy(value))
  const { faults } = inspectConfig(value, references, stores.box, stores.config)
  const hidden = [
    ...excused,
    ...named.problems.map((problem) => problem.pointer.replace('saved_connector_id', 'connection')),
  ]
  return [
    ...unnamed,
    ...moved.flatMap(({ fault }) => readFaults(fault, object, at)),
    ...missing.filter((problem) => !moved.some(({ side }) => problem.pointer.startsWith(pointer(side)))),
    ...except([...hidden, ...missing.map((problem) => problem.pointer)], readFaults(faults.join('\n'), object, at)),
  ]
}

/** Sides whose masks do not stand for what is stored: a check that another connector makes could tell the secret. */
function findMovedSecrets(rules: SecretRules, given: Fields, stored: PipelineConfig): { side: Side; fault: string }[] {
  return SIDES.flatMap((side) => {
    try {
      const change = { incoming: given[side], stored: stored[side], path: `config.${side}` }
      requireKeptInPlace(rules, { kind: side, connector_name: stored[side].name }, change)
      return []
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return [{ side, fault: error.message }]
    }
  })
}

function withSides(config: Fields): Fields {
  const sides = namesIn(config).map(({ side }) => {
    const { connection: _, ...rest } = config[side] as Fields
    return [side, { ...rest, saved_connector_id: UNKNOWN }]
  })
  return { ...config, ...Object.fromEntries(sides) }
}

function except(pointers: readonly string[], problems: readonly Problem[]): Problem[] {
  const hidden = new Set(pointers)
  return problems.filter(({ pointer }) => !hidden.has(pointer))
}

/** Masks replaced by what is stored. One that stands for nothing is a problem, and stays. */
function restoreKnown(
  value: unknown,
  stored: unknown,
  at: (string | number)[],
): { value: unknown; missing: Problem[] } {
  if (value === MASK)
    return stored === undefined || stored === null
      ? { value, missing: [{ pointer: pointerTo(...at), message: MISSING_SECRET }] }
      : { value: stored, missing: [] }
  if (typeof value !== 'object' || value === null) return { value, missing: [] }
  const behind = (name: string | number) =>
    typeof stored === 'object' && stored !== null && Object.hasOwn(stored, name)
      ? (stored as Record<string | number, unknown>)[name]
      : undefined
  if (Array.isArray(value)) {
    const items = value.map((item, index) => restoreKnown(item, behind(index), [...at, index]))
    return { value: items.map((item) => item.value), missing: items.flatMap((item) => item.missing) }
  }
  const parts = Object.entries(value).map(([name, inner]) => ({
    name,
    ...restoreKnown(inner, behind(name), [...at, name]),
  }))
  return {
    value: Object.fromEntries(parts.map(({ name, value: restored }) => [name, restored])),
    missing: parts.flatMap(({ missing }) => missing),
  }
}
