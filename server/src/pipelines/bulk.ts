/** Plans and creates one pipeline per chosen stream of a source, in one transaction: all of them or none. */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { SharedChecks } from '../connections/endpoint-faults.ts'
import { refuse } from '../connections/faults.ts'
import { restoreMasks } from '../connections/masks.ts'
import type { ProbeServices } from '../connections/probes.ts'
import type { References } from '../connections/references.ts'
import { resolveDestination } from '../connections/resolve.ts'
import { findDestination } from '../connectors/registry.ts'
import { applyDefaults, isObject } from '../connectors/settings/settings.ts'
import type { Queryable } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { LONGEST_NAME } from '../tenancy/names.ts'
import { type ConfigSummary, checkConfig, syncOf } from './config.ts'
import type { PipelineConfig } from './config-shape.ts'
import {
  enterDomain,
  insertPipeline,
  type Pipeline,
  readTiming,
  requireReadableRuns,
  requireRoom,
  type Stores,
  type Timing,
} from './pipelines.ts'
import { type ChosenStreams, chooseStreams, type StreamChoice, type Suggestion } from './stream-choice.ts'
import { forgetTotals } from './totals.ts'

export interface BulkInput extends Timing {
  /** Contains {stream}, and optionally {source}. */
  name_pattern?: string
  /** The name of the target table, with {stream}, {schema} and {source}. */
  table_pattern?: string
  streams: StreamChoice
  /** A pipeline's config whose source has no stream. */
  config: unknown
  domain_id?: string | null
}

interface PlannedPipeline {
  stream: string
  name: string
  /** Null where the destination has no tables. */
  table: string | null
  mode: string
  write: string
  cursor_field: string | null
  primary_key: string[]
}

export interface BulkPlan {
  plan: PlannedPipeline[]
  problems: string[]
}

type BulkServices = Stores & ProbeServices

const DEFAULT_PATTERN = '{source} {stream}'

/** What `createPipelines` would do, and what would stop it. */
export async function planPipelines(
  services: BulkServices,
  actor: Actor,
  input: BulkInput,
  signal: AbortSignal,
): Promise<BulkPlan> {
  const chosen = await choose(services, actor, input, signal)
  const { checked, problems, full } = await check(services.db, services, actor, { input, chosen })
  const plan = checked.map(({ name, table, config, summary }) => {
    const { mode, write, cursor_field, primary_key } = syncOf(config, findDestination(summary.destination_name)!)
    return { stream: config.source.stream, name, table, mode, write, cursor_field, primary_key }
  })
  return { plan, problems: full ? [full.message, ...problems] : problems }
}

export async function createPipelines(
  services: BulkServices,
  actor: Actor,
  input: BulkInput,
  signal: AbortSignal,
): Promise<Pipeline[]> {
  // Before the transaction: a connection should not wait for a tenant's server.
  const chosen = await choose(services, actor, input, signal)
  const made = await services.db.transaction(async (tx) => {
    const { checked, problems, full, timing } = await check(tx, services, actor, { input, chosen })
    if (full) throw full
    if (problems.length > 0) throw refuse(problems)
    const rows: Pipeline[] = []
    for (const { name, config, summary } of checked) {
      const row = { ...timing, id: randomUUID(), name, domain_id: input.domain_id ?? null }
      rows.push(await insertPipeline({ db: tx, box: services.box }, actor, { ...row, config, summary }))
    }
    return rows
  })
  forgetTotals(actor.organization_id)
  return made
}

async function choose(
  services: BulkServices,
  actor: Actor,
  input: BulkInput,
  signal: AbortSignal,
): Promise<ChosenStreams> {
  const { config, streams, name_pattern: pattern } = input
  if (!(Array.isArray(streams) && streams.length === 1) && pattern !== undefined && !pattern.includes('{stream}'))
    throw new AppError('invalid_input', "name_pattern: must contain {stream}, as in '{source} {stream}'")
  const source = sourceOf(config)
  if (source && Object.hasOwn(source, 'stream'))
    throw new AppError('invalid_input', 'config.source.stream: leave it out; each of the streams gets a pipeline')
  // Without a source the check of the config says so.
  if (!source) return { streams: Array.isArray(streams) ? streams : [''], suggestions: null, problem: null }
  const given = restoreMasks(config, undefined, 'config') as { sync?: unknown }
  return chooseStreams({ services, actor, source, signal }, streams, given.sync)
}

const sourceOf = (config: unknown) => (isObject(config) && isObject(config.source) ? config.source : null)

interface CheckedPipeline {
  name: string
  table: string | null
  config: PipelineConfig
  summary: ConfigSummary
}

interface Checked {
  checked: CheckedPipeline[]
  problems: string[]
  /** The organization may not have so many more pipelines. */
  full: AppError | null
  timing: ReturnType<typeof readTiming>
}

async function check(
  db: Queryable,
  services: BulkServices,
  actor: Actor,
  { input, chosen }: { input: BulkInput; chosen: ChosenStreams },
): Promise<Checked> {
  const references = await enterDomain(db, actor, input.config, input.domain_id ?? null)
  const timing = readTiming(input, references.now)
  const problem = chosen.problem ?? findPatternFault(input, references)
  if (problem !== null) return { checked: [], problems: [problem], full: null, timing }
  const full = await requireRoom(db, services, actor, chosen.streams.length).then(
    () => null,
    (error: unknown) => {
      if (error instanceof AppError && error.code === 'conflict') return error
      throw error
    },
  )
  const given = restoreMasks(input.config, undefined, 'config') as Record<string, unknown>
  const checked: CheckedPipeline[] = []
  const faults = new Map<string, string[]>()
  const shared: SharedChecks = new Map()
  for (const stream of chosen.streams) {
    // Other requests are served in between.
    await setImmediate()
    const config = complete(given, stream, { input, suggestion: chosen.suggestions?.get(stream) })
    try {
      checked.push(checkOne(services, config, references, { input, shared }))
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'invalid_input') throw error
      faults.set(error.message, [...(faults.get(error.message) ?? []), stream])
    }
  }
  // All of them have the same settings.
  if (checked[0]) await requireReadableRuns({ db, box: services.box }, actor, checked[0].config, references)
  const problems = [...faults].map(([fault, streams]) => describeFault(fault, streams, chosen.streams.length))
  return { checked, problems: [...problems, ...findSharedTables(checked)], full, timing }
}

function findPatternFault({ table_pattern, config }: BulkInput, references: References): string | null {
  if (table_pattern === undefined) return null
  const given = isObject(config) && isObject(config.destination) ? config.destination.name : undefined
  const destination = findDestination(references.destination?.connector_name ?? String(given))
  if (!destination || 'table' in destination.settings.properties) return null
  return `table_pattern: the ${destination.name} destination has no tables; leave it out`
}

/** A fault of all streams is one of the config. */
const describeFault = (fault: string, streams: readonly string[], all: number): string =>
  streams.length === all ? fault : `${streams.map((stream) => `'${stream}'`).join(', ')}: ${fault}`

/** The config of one pipeline. What the caller gave counts more than what a description suggests. */
function complete(
  given: Record<string, unknown>,
  stream: string,
  { input, suggestion }: { input: BulkInput; suggestion: Suggestion | undefined },
): Record<string, unknown> {
  const config = { ...given }
  if (isObject(given.source)) config.source = { ...given.source, stream }
  if (suggestion) config.sync = completeSync(isObject(given.sync) ? given.sync : {}, suggestion)
  if (input.table_pattern !== undefined && isObject(given.destination)) {
    const settings = isObject(given.destination.config) ? given.destination.config : {}
    const table = fillTable(input.table_pattern, stream, String(sourceOf(input.config)?.name ?? ''))
    config.destination = { ...given.destination, config: { ...settings, table } }
  }
  return config
}

function completeSync(sync: Record<string, unknown>, { primary_key, cursor_field }: Suggestion) {
  const completed = { ...sync }
  if (sync.mode === 'incremental' && sync.cursor_field === undefined && cursor_field !== null)
    completed.cursor_field = cursor_field
  if (sync.primary_key === undefined && primary_key.length > 0 && (sync.write ?? 'upsert') === 'upsert')
    completed.primary_key = primary_key
  return completed
}

/** {stream} is the last part of the name, {schema} what is before it. */
function fillTable(pattern: string, stream: string, source: string): string {
  const parts = (stream.match(/"(?:[^"]|"")*"|[^."]+/g) ?? [stream]).map((part) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part,
  )
  const values = { stream: parts.at(-1)!, schema: parts.slice(0, -1).join('_'), source }
  return pattern.replace(/\{(stream|schema|source)\}/g, (_, word: keyof typeof values) => values[word])
}

function checkOne(
  { box, config: limits }: BulkServices,
  given: Record<string, unknown>,
  references: References,
  { input, shared }: { input: BulkInput; shared: SharedChecks },
): CheckedPipeline {
  const { RUN_TIMEOUT_MINUTES, POD_CLASSES } = limits
  const { config, summary } = checkConfig(given, references, box, { RUN_TIMEOUT_MINUTES, POD_CLASSES, shared })
  const pattern = input.name_pattern ?? DEFAULT_PATTERN
  const name = pattern.replace(/\{(stream|source)\}/g, (_, word: string) =>
    word === 'stream' ? config.source.stream : summary.source_name,
  )
  return { name: name.slice(0, LONGEST_NAME), table: findTable(config, references, box), config, summary }
}

/** The table that a pipeline loads, for a destination that has tables. */
function findTable(config: PipelineConfig, references: References, box: Stores['box']): string | null {
  const { name, config: settings } = resolveDestination(config.destination, references, box)
  const destination = findDestination(name)
  if (!destination || !('table' in destination.settings.properties)) return null
  try {
    const { table } = destination.canonical!(applyDefaults(destination.settings, settings), config.source.stream)
    return typeof table === 'string' ? table : null
  } catch (error) {
    throw new AppError('invalid_input', `config.destination: ${(error as Error).message}`)
  }
}

/** Two streams in one table would be mixed, or replace each other. */
function findSharedTables(checked: readonly CheckedPipeline[]): string[] {
  const streams = new Map<string, string[]>()
  for (const { table, config } of checked)
    if (table !== null) streams.set(table, [...(streams.get(table) ?? []), config.source.stream])
  return [...streams]
    .filter(([, sharing]) => sharing.length > 1)
    .map(
      ([table, sharing]) =>
        `table_pattern: ${sharing.map((stream) => `'${stream}'`).join(' and ')} would be loaded into the same table '${table}'; use a pattern like '{schema}_{stream}'`,
    )
}
