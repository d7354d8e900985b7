/** Reads runs: a single run, those of a pipeline, and statistics. */

import { join, type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { COUNTED_AT_MOST, type Listed, type Paging, readList } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { inVisibleDomain, ofVisiblePipeline } from '../tenancy/visibility.ts'
import { RUN_STATUSES, type RunStatus } from './states.ts'
import { describeWaiting, type Waiting } from './waiting.ts'

export interface RunRow {
  id: string
  pipeline_id: string
  status: RunStatus
  triggered_by: string
  started_at: string | null
  finished_at: string | null
  error: string | null
  records_written: number
  created_at: string
}

export interface RunDetail extends RunRow {
  output_file: string | null
  output_file_size: number | null
  attempt: number
  source_version: number | null
  records_read: number
  bytes_written: number
  records_quarantined: number
  waiting: string | null
}

export const listed = sql`r.id, r.pipeline_id, r.status, r.triggered_by, r.started_at, r.finished_at, r.error, r.records_written, r.created_at`

const PIPELINE_ID = raw('r.pipeline_id')
const DOMAIN_ID = raw('p.domain_id')

export function requireStatus(status: string | undefined | null): RunStatus | null {
  if (status === undefined || status === null || status === '') return null
  if (!(RUN_STATUSES as readonly string[]).includes(status))
    throw new AppError('invalid_input', `status: must be one of ${RUN_STATUSES.join(', ')}`)
  return status as RunStatus
}

export async function listPipelineRuns(
  db: Queryable,
  actor: Actor,
  pipelineId: string,
  { status, ...page }: Paging & WithCounts & { status: RunStatus | null },
): Promise<Listed<RunRow> & Counted> {
  const pipeline = await db.first(
    sql`SELECT 1 FROM pipelines WHERE id = ${pipelineId} AND organization_id = ${actor.organization_id}${inVisibleDomain(actor)}`,
  )
  if (!pipeline) throw notFound('Pipeline')
  const of = (status: RunStatus | null) =>
    sql`FROM runs r WHERE r.pipeline_id = ${pipelineId}${status ? sql` AND r.status = ${status}` : sql``}`
  const own = of(status)
  const list = await readList<RunRow>(db, page, sql`SELECT ${listed} ${own} ORDER BY r.seq DESC`, sql`SELECT 1 ${own}`)
  return page.include_counts ? { ...list, counts: await countStatuses(db, (each) => sql`SELECT 1 ${of(each)}`) } : list
}

/** How many there are of each status, each counted to 10,000 through its index. */
export type StatusCounts = Record<RunStatus, number>

export interface WithCounts {
  include_counts?: boolean
}
export interface Counted {
  counts?: StatusCounts
}

export async function countStatuses(db: Queryable, matching: (status: RunStatus) => Statement): Promise<StatusCounts> {
  const each = RUN_STATUSES.map(
    (status) => sql`(SELECT count(*)::int FROM (${matching(status)} LIMIT ${COUNTED}) c) AS ${raw(status)}`,
  )
  return (await db.first<StatusCounts>(sql`SELECT ${join(each, ', ')}`))!
}

/** The same number as if they were counted together. */
export function totalOf(counts: StatusCounts, status: RunStatus | null): number {
  const all = Object.values(counts).reduce((sum, each) => sum + each)
  return status ? counts[status] : Math.min(all, COUNTED_AT_MOST)
}

const COUNTED = raw(String(COUNTED_AT_MOST))

export async function readRun(db: Queryable, actor: Actor, runId: string): Promise<RunDetail> {
  const run = await db.first<Omit<RunDetail, 'waiting'> & Waiting>(sql`
    SELECT ${listed}, r.output_file, r.output_file_size, r.attempt, r.source_version, r.records_read, r.bytes_written, r.records_quarantined,
           r.ready, r.available_at, r.pod_class, extract(epoch FROM now() - greatest(r.created_at, r.available_at))::float8 AS waits_seconds
      FROM runs r WHERE r.id = ${runId} AND r.organization_id = ${actor.organization_id}${ofVisiblePipeline(actor, PIPELINE_ID)}`)
  if (!run) throw notFound('Run')
  return { ...run, waiting: run.status === 'pending' ? describeWaiting(run) : null }
}

export interface PipelineStats {
  days: number
  runs: number
  succeeded: number
  failed: number
  cancelled: number
  success_rate: number | null
  duration_seconds: { p50: number | null; p95: number | null; max: number | null }
  records_per_day: { day: string; runs: number; records: number }[]
}

export async function readPipelineStats(
  db: Queryable,
  actor: Actor,
  pipelineId: string,
  days: number,
): Promise<PipelineStats> {
  const row = await db.first<PipelineStats>(sql`
    WITH recent AS (
      SELECT r.status, r.records_written, r.created_at, extract(epoch FROM r.finished_at - r.started_at)::float8 AS seconds
        FROM runs r WHERE r.pipeline_id = ${pipelineId} AND r.created_at > now() - make_interval(days => ${days})
    ),
    daily AS (
      SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, count(*)::int AS runs, sum(records_written)::bigint AS records FROM recent GROUP BY 1
    )
    SELECT ${days}::int AS days, count(r.status)::int AS runs,
           count(*) FILTER (WHERE r.status = 'success')::int AS succeeded,
           count(*) FILTER (WHERE r.status = 'failed')::int AS failed,
           count(*) FILTER (WHERE r.status = 'cancelled')::int AS cancelled,
           (count(*) FILTER (WHERE r.status = 'success'))::float8 / nullif(count(*) FILTER (WHERE r.status IN ('success', 'failed')), 0) AS success_rate,
           jsonb_build_object('p50', percentile_cont(0.5) WITHIN GROUP (ORDER BY r.seconds) FILTER (WHERE r.status = 'success'),
                              'p95', percentile_cont(0.95) WITHIN GROUP (ORDER BY r.seconds) FILTER (WHERE r.status = 'success'),
                              'max', max(r.seconds) FILTER (WHERE r.status = 'success')) AS duration_seconds,
           coalesce((SELECT jsonb_agg(jsonb_build_object('day', day, 'runs', runs, 'records', records) ORDER BY day) FROM daily), '[]') AS records_per_day
      FROM pipelines p LEFT JOIN recent r ON true
     WHERE p.id = ${pipelineId} AND p.organization_id = ${actor.organization_id}${inVisibleDomain(actor, DOMAIN_ID)} GROUP BY p.id`)
  if (!row) throw notFound('Pipeline')
  return row
}
