/** People name things as they see them: by name as well as by id. */
import { UsageError } from '../errors.ts'
import { nearest } from '../nearest.ts'
import type { Service } from './service.ts'
import { ServiceError } from './service-errors.ts'

export interface PipelineItem {
  id: string
  name: string
  schedule: string | null
  enabled: boolean
  domain_name: string | null
  source_name: string | null
  stream: string
  destination_name: string | null
  next_run_at: string | null
  last_run_status: string | null
  last_run_at: string | null
}

export interface Run {
  id: string
  pipeline_id: string
  status: 'pending' | 'running' | 'success' | 'failed' | 'cancelled'
  triggered_by: string
  created_at: string
  started_at: string | null
  finished_at: string | null
  error: string | null
  attempt: number
  records_read: number
  records_written: number
  records_quarantined: number
  bytes_written: number
  output_file: string | null
  output_file_size: number | null
  /** What a pending one waits for. */
  waiting?: string | null
}

export const isId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const CANDIDATES = 100

/** The pipeline of this name or id. A name in another case is accepted if only one has it. */
export async function findPipeline(service: Service, given: string): Promise<{ id: string; name: string }> {
  if (isId(given)) return service.call('GET', `/api/pipelines/${given}`)
  const query = new URLSearchParams({ q: given.slice(0, 200), limit: String(CANDIDATES), sort: 'name' })
  const found = await service.call<PipelineItem[]>('GET', `/api/pipelines?${query}`)
  const exact = found.filter(({ name }) => name === given)
  const same = exact.length > 0 ? exact : found.filter(({ name }) => name.toLowerCase() === given.toLowerCase())
  if (same.length === 1) return same[0]!
  if (same.length > 1)
    throw new UsageError(
      `There are ${same.length} pipelines '${given}'; use the id of one:\n${same.map(describe).join('\n')}`,
    )
  throw new UsageError(`There is no pipeline '${given}'.${await suggest(service, given, found)} See sluice pipelines.`)
}

const describe = ({ id, name, domain_name, source_name, destination_name }: PipelineItem): string =>
  `  ${id}  ${name}${domain_name === null ? '' : ` in ${domain_name}`} (${source_name} → ${destination_name})`

async function suggest(service: Service, given: string, found: PipelineItem[]): Promise<string> {
  if (found.length > 0)
    return ` Did you mean ${found
      .slice(0, 3)
      .map(({ name }) => `'${name}'`)
      .join(', ')}?`
  const all = await service.call<PipelineItem[]>('GET', `/api/pipelines?limit=${CANDIDATES}&sort=name`)
  const near = nearest(
    given,
    all.map(({ name }) => name),
  )
  return near === null ? '' : ` Did you mean '${near}'?`
}

/** What a run loads again, and whether it writes elsewhere than its pipeline. */
export interface Replay {
  replays: string
  other_destination?: true
}

/** Null if the run is no replay, or its configuration is not kept. */
export async function findReplay(
  service: Service,
  { id, triggered_by }: Pick<Run, 'id' | 'triggered_by'>,
): Promise<Replay | null> {
  if (triggered_by !== 'replay') return null
  try {
    const { config } = await service.call<{ config: Partial<Replay> | null }>('GET', `/api/pipelines/runs/${id}/config`)
    return typeof config?.replays === 'string' ? (config as Replay) : null
  } catch (error) {
    if (error instanceof ServiceError && [404, 409].includes(error.status)) return null
    throw error
  }
}

/**
 * A run by its id, or the last run of a pipeline by that one's name or id. A replay into another destination is not what
 * the pipeline did last: somebody filled a table of their own with it.
 */
export async function findRun(service: Service, given: string): Promise<Run> {
  if (isId(given)) {
    try {
      return await service.call<Run>('GET', `/api/pipelines/runs/${given}`)
    } catch (error) {
      if (!(error instanceof ServiceError) || error.status !== 404) throw error
    }
  }
  const pipeline = await findPipeline(service, given).catch((error: unknown) => {
    const missing = error instanceof ServiceError && error.status === 404
    throw missing ? new UsageError(`There is no run and no pipeline with the id ${given}. See sluice runs.`) : error
  })
  const runs = await service.call<Run[]>('GET', `/api/pipelines/${pipeline.id}/runs?limit=${CANDIDATES}`)
  for (const run of runs) if (!(await findReplay(service, run))?.other_destination) return run
  throw new UsageError(
    runs.length === 0
      ? `The pipeline '${pipeline.name}' has no run yet; start one with sluice run.`
      : `The last runs of '${pipeline.name}' are replays into other destinations; name a run by its id, see sluice runs.`,
  )
}
