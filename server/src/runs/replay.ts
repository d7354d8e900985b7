/**
 * Loads the kept output of a run again, into the destination that its pipeline has now or into another one, without asking
 * the source. It is a run of the pipeline like any other, exactly once and in turn with the others, with that output as its
 * source; the pipeline's state, its kept columns and its mark in the destination are left alone.
 */
import { findSizeFault } from '../connections/config-size.ts'
import { checkDestination, findEndpointFaults } from '../connections/endpoint-faults.ts'
import type { DestinationConfig } from '../connections/endpoint-shape.ts'
import { refuse } from '../connections/faults.ts'
import { restoreMasks } from '../connections/masks.ts'
import { loadReferences, wantedBy } from '../connections/references.ts'
import { type Fields, isObject } from '../connectors/settings/settings.ts'
import { type Queryable, raw, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { AppError, notFound } from '../errors.ts'
import type { PipelineConfig } from '../pipelines/config-shape.ts'
import type { ResolvedConfig } from '../pipelines/resolve.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { ofVisiblePipeline } from '../tenancy/visibility.ts'
import { databaseOf, formatOf, type OutputFormat } from './output-format.ts'
import { type TriggeredRun, type TriggerServices, triggerAs } from './trigger.ts'

export async function replayRun(
  services: TriggerServices,
  actor: Actor,
  runId: string,
  { destination }: { destination?: unknown },
): Promise<TriggeredRun> {
  const run = await findReplayable(services.db, actor, runId)
  const other = destination === undefined ? null : await checkOther(services, actor, run, destination)
  return triggerAs(services, actor, run.pipeline_id, {
    triggered_by: 'replay',
    details: { replays: runId, ...(other && { destination: other.name }) },
    rewrite: (config) => readOutput(other ? other.load(config) : config, run),
    adapt: (config) => ({ ...asReplay(config), replays: runId, ...(other && { other_destination: true }) }),
  })
}

interface Replayable {
  id: string
  pipeline_id: string
  domain_id: string | null
  format: Format
}

type Format = Exclude<OutputFormat, 'tsv'>

const PIPELINE_ID = raw('r.pipeline_id')

async function findReplayable(db: Queryable, actor: Actor, runId: string): Promise<Replayable> {
  const run = await db.first<{
    id: string
    pipeline_id: string
    domain_id: string | null
    status: string
    output_file: string | null
    output_type: string
    is_kept: boolean
    is_typed: boolean
  }>(sql`
    SELECT r.id, r.pipeline_id, p.domain_id, r.status, r.output_file, r.output_type, r.output_parts IS NOT NULL AS is_kept, r.output_columns IS NOT NULL AS is_typed
      FROM runs r JOIN pipelines p ON p.id = r.pipeline_id
     WHERE r.id = ${runId} AND r.organization_id = ${actor.organization_id}${ofVisiblePipeline(actor, PIPELINE_ID)}`)
  if (!run) throw notFound('Run')
  const { id, pipeline_id, domain_id, status, output_file, output_type } = run
  if (status === 'pending' || status === 'running')
    throw conflict(`This run has no output yet: it is ${status}; wait until it has ended`)
  if (status !== 'success' || output_file === null || !run.is_kept)
    throw conflict(
      'This run has no output to load again: it did not succeed, kept none (config.run.keep_output), or its output has expired',
    )
  return { id, pipeline_id, domain_id, format: requireFormat({ output_file, output_type }, run.is_typed) }
}

const conflict = (sentence: string) => new AppError('conflict', sentence)

/** Of typed rows it is not looked at: their columns are stored beside them. */
function requireFormat(output: { output_type: string; output_file: string }, isTyped: boolean): Format {
  const database = databaseOf(output)
  if (database !== null)
    throw conflict(
      `The output of this run is a whole ${database} database, not the records of one run; make a pipeline with the source ${database} to read it`,
    )
  const format = formatOf(output)
  if (format === 'tsv' && isTyped) return 'csv'
  if (format === null || format === 'tsv')
    throw conflict('The output of this run was kept in a form that cannot be read again; run the pipeline again')
  return format
}

interface OtherDestination {
  name: string
  /** The config of the pipeline, with this destination. */
  load(config: PipelineConfig): PipelineConfig
}

/**
 * Whoever names a destination decides where the records go and what is replaced there, and may use saved secrets for it:
 * that is what saving a pipeline needs, and reading the records.
 */
async function checkOther(
  { db, box }: { db: Queryable; box: SecretBox },
  actor: Actor,
  { domain_id }: Replayable,
  given: unknown,
): Promise<OtherDestination> {
  requirePermission(actor, 'pipelines:write', domain_id)
  requirePermission(actor, 'pipelines:read', domain_id)
  const faults = findShapeFaults(given)
  if (faults.length > 0) throw refuse(faults)
  const destination = restoreMasks(given, undefined, 'destination') as DestinationConfig
  const references = await loadReferences(db, actor.organization_id, wantedBy({ destination }))
  const found = checkDestination(destination, { references, box, path: 'destination', faults })
  if (faults.length > 0 || !found) throw refuse(faults)
  const { write: offered, quarantine } = found.capabilities
  return {
    name: found.name,
    load(config) {
      const { write, on_error, max_error_share, ...sync } = config.sync ?? {}
      return {
        ...config,
        destination,
        sync: {
          ...sync,
          ...(write && offered.includes(write) && { write }),
          ...(on_error && quarantine && { on_error, ...(max_error_share !== undefined && { max_error_share }) }),
        },
        // The file of such a destination is the output.
        run: { ...config.run, ...(found.buildOutput && { keep_output: true }) },
      }
    },
  }
}

function findShapeFaults(given: unknown): string[] {
  if (!isObject(given)) return ['destination: must be an object with name and config, or with saved_connector_id']
  const size = findSizeFault(given, 'destination')
  return size === null ? findEndpointFaults('destination', given as Fields, 'destination') : [size]
}

const readOutput = (config: PipelineConfig, { id, format }: Replayable): PipelineConfig => ({
  ...config,
  source: {
    name: 'file',
    // Destinations name tables and objects after it.
    stream: config.source.stream,
    authentication: { type: 'none', params: {} },
    config: { run_id: id, format },
  },
})

/** How it writes was decided by how the pipeline reads; the output itself is always read whole, and its columns were chosen before. */
function asReplay({ sync, ...config }: ResolvedConfig): ResolvedConfig {
  return { ...config, columns: {}, sync: { ...sync, mode: 'full_refresh', cursor_field: null, lookback_seconds: 0 } }
}
