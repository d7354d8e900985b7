/** Lists the runs of an organization's pipelines, newest first. */

import { join, type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { countUpTo, type Listed, plannedEachTime } from '../database/lists.ts'
import type { Actor } from '../tenancy/actor.ts'
import { inVisibleDomain, visibleDomain } from '../tenancy/visibility.ts'
import { type Counted, countStatuses, listed, type RunRow, requireStatus, totalOf, type WithCounts } from './runs.ts'
import type { RunStatus } from './states.ts'

export interface RunFilters extends WithCounts {
  status?: string
  pipeline_id?: string
  domain_id?: string
  triggered_by?: string
  since?: string
  until?: string
  /** The id of the last run of the previous page. */
  before?: string
  limit: number | null
  offset: number
}

export interface RunOfOrganization extends RunRow {
  pipeline_name: string
  domain_id: string | null
}

const R = raw('r')
const B = raw('b')
const DOMAIN_ID = raw('p.domain_id')

/** The runs of a pipeline are indexed by number, those of the organization by time. */
const BY_NUMBER = { order: sql`r.seq DESC`, place: (run: Statement) => sql`${run}.seq` }
const BY_TIME = {
  order: sql`r.created_at DESC, r.seq DESC`,
  place: (run: Statement) => sql`${run}.created_at, ${run}.seq`,
}

/** Up to so many pipelines, the runs of a domain are found through each of them; beyond that, through time. */
const SMALL_DOMAIN = 500

/** Keyset pagination: a page costs the same however far down it is. */
export async function listRuns(
  database: Queryable,
  actor: Actor,
  filters: RunFilters,
): Promise<Listed<RunOfOrganization> & Counted> {
  const db = plannedEachTime(database)
  const status = requireStatus(filters.status)
  const perPipeline = await isSmallDomain(db, actor, filters)
  const { order, place } = filters.pipeline_id || perPipeline ? BY_NUMBER : BY_TIME
  const behind = filters.before
    ? sql` AND (${place(R)}) < (SELECT ${place(B)} FROM runs b WHERE b.id = ${filters.before} AND b.organization_id = ${actor.organization_id})`
    : sql``
  const page = (count: number | null) => sql`ORDER BY ${order} LIMIT ${count}`
  const ofRun = sql`${runConditions(actor, filters, perPipeline)}${ofStatus(status)}${behind}`
  const { limit, offset } = filters
  const last = limit === null ? null : limit + offset
  const from = perPipeline
    ? sql`FROM pipelines p CROSS JOIN LATERAL (SELECT r.* FROM runs r WHERE ${ofRun} ${page(last)}) r WHERE ${pipelineConditions(actor, filters)}`
    : sql`FROM runs r JOIN pipelines p ON p.id = r.pipeline_id WHERE ${ofRun}${isByDomain(actor, filters) ? sql` AND ${pipelineConditions(actor, filters)}` : sql``}`
  const rows = await db.query<RunOfOrganization>(
    sql`SELECT ${listed}, p.name AS pipeline_name, p.domain_id ${from} ${page(limit)} OFFSET ${offset}`,
  )
  const matching = (status: RunStatus | null) => countable(actor, filters, status)
  if (filters.include_counts) {
    const counts = await countStatuses(db, matching)
    return { rows, total: totalOf(counts, status), counts }
  }
  const all = !filters.before && offset === 0 && limit !== null && rows.length < limit
  return { rows, total: all ? rows.length : await countUpTo(db, matching(status)) }
}

const ofStatus = (status: RunStatus | null) => (status ? sql` AND r.status = ${status}` : sql``)

/** `perPipeline`: the pipeline is joined, and of the organization; its runs are found in the index of the pipeline alone. */
function runConditions(actor: Actor, filters: RunFilters, perPipeline: boolean): Statement {
  const conditions = [perPipeline ? sql`r.pipeline_id = p.id` : sql`r.organization_id = ${actor.organization_id}`]
  if (filters.pipeline_id) conditions.push(sql`r.pipeline_id = ${filters.pipeline_id}`)
  // Part of the statement, so that the partial index without scheduled runs can be used.
  if (filters.triggered_by && filters.triggered_by !== 'schedule') conditions.push(sql`r.triggered_by <> 'schedule'`)
  if (filters.triggered_by) conditions.push(sql`r.triggered_by = ${filters.triggered_by}`)
  if (filters.since) conditions.push(sql`r.created_at >= ${filters.since}`)
  if (filters.until) conditions.push(sql`r.created_at < ${filters.until}`)
  return join(conditions, ' AND ')
}

function pipelineConditions(actor: Actor, { domain_id }: RunFilters): Statement {
  const ofDomain = domain_id === undefined ? sql`` : sql` AND p.domain_id = ${domain_id}`
  return sql`p.organization_id = ${actor.organization_id}${ofDomain}${inVisibleDomain(actor, DOMAIN_ID)}`
}

const isByDomain = (actor: Actor, { domain_id }: RunFilters) => domain_id !== undefined || visibleDomain(actor) !== null

/** A period is found through time in any case. */
async function isSmallDomain(db: Queryable, actor: Actor, filters: RunFilters): Promise<boolean> {
  if (!isByDomain(actor, filters) || filters.pipeline_id || filters.since || filters.until) return false
  const pipelines = sql`SELECT 1 FROM pipelines p WHERE ${pipelineConditions(actor, filters)}`
  return (await countUpTo(db, pipelines, SMALL_DOMAIN + 1)) <= SMALL_DOMAIN
}

/** Reads indexes alone: of the organization's runs, or of each pipeline in the domain. */
function countable(actor: Actor, filters: RunFilters, status: RunStatus | null): Statement {
  const byDomain = isByDomain(actor, filters)
  const ofRun = sql`${runConditions(actor, filters, byDomain)}${ofStatus(status)}`
  if (!byDomain) return sql`SELECT 1 FROM runs r WHERE ${ofRun}`
  return sql`SELECT 1 FROM pipelines p JOIN runs r ON ${ofRun} WHERE ${pipelineConditions(actor, filters)}`
}
