/**
 * The list of pipelines, as JSON text built by PostgreSQL: the page, its domain names and the last runs in one
 * statement, without creating an object per row here. A test proves that the text matches the response schema.
 */
import { join, type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { COUNTED_AT_MOST, type Paging, plannedEachTime } from '../database/lists.ts'
import type { Actor } from '../tenancy/actor.ts'
import { inVisibleDomain, visibleDomain } from '../tenancy/visibility.ts'
import { cachedTotal, rememberTotal, WORTH_REMEMBERING } from './totals.ts'

export interface PipelineFilter {
  domain_id?: string
  /** A part of the name. */
  q?: string | undefined
  enabled?: boolean
  scheduled?: boolean
  /** Of the last run. */
  status?: string | undefined
  source?: string
  destination?: string
  saved_source_id?: string
  saved_destination_id?: string
}

/** A minus before it: descending. */
export const PIPELINE_SORTS = [
  '-created_at',
  'created_at',
  'name',
  '-name',
  'last_run_at',
  '-last_run_at',
  'next_run_at',
  '-next_run_at',
] as const
export type PipelineSort = (typeof PIPELINE_SORTS)[number]

export interface ListedJson {
  /** A JSON array. */
  json: string
  total: number
}

const MOST = raw(String(COUNTED_AT_MOST))

export async function listPipelines(
  database: Queryable,
  actor: Pick<Actor, 'organization_id' | 'scope'>,
  filter: PipelineFilter,
  page: Paging & { sort?: PipelineSort },
): Promise<ListedJson> {
  const db = plannedEachTime(database)
  const organizationId = actor.organization_id
  const where = conditions(actor, filter)
  const listed = selectPage(actor, where, filter, page)
  // The status of last runs changes without a change of pipelines, and is counted in an index.
  const { status, ...rest } = filter
  const list = JSON.stringify([rest, visibleDomain(actor)])
  const known = status === undefined ? cachedTotal(organizationId, list) : null
  if (known !== null) {
    const { json } = (await db.first<{ json: string }>(sql`SELECT ${asJson(listed)} AS json`))!
    return { json: unifyTimes(json), total: known }
  }
  // With other filters names are not all that is looked at, and an index has only these.
  const { q } = filter
  const byNameAlone = q !== undefined && status === undefined && list === JSON.stringify([{ q }, null])
  const few = byNameAlone ? await findFew(db, where) : null
  if (few !== null) {
    const own = sql`p.organization_id = ${organizationId} AND p.id = ANY (${few}::uuid[])${inVisibleDomain(actor, DOMAIN_ID)}`
    const { json } = (await db.first<{ json: string }>(
      sql`SELECT ${asJson(selectPage(actor, own, filter, page))} AS json`,
    ))!
    return { json: unifyTimes(json), total: few.length }
  }
  const remember = rememberTotal(organizationId, list)
  const byStatusAlone = status !== undefined && list === EVERYTHING
  const counted = byStatusAlone
    ? sql`pipeline_activity a WHERE ${hasStatus(organizationId, status)}`
    : sql`${status === undefined ? sql`pipelines p` : WITH_ACTIVITY} WHERE ${where}`
  const row = (await db.first<ListedJson>(sql`
    SELECT ${asJson(listed)} AS json, (SELECT count(*)::int FROM (SELECT 1 FROM ${counted} LIMIT ${MOST}) c) AS total`))!
  if (status === undefined) remember(row.total)
  return { json: unifyTimes(row.json), total: row.total }
}

/** What a search finds that finds little has to be looked for once, not for the page and for the total. Null: it is much. */
async function findFew(db: Queryable, where: Statement): Promise<string[] | null> {
  const found = await db.query<{ id: string }>(
    sql`SELECT p.id FROM pipelines p WHERE ${where} ORDER BY lower(p.name), p.id LIMIT ${WORTH_REMEMBERING}`,
  )
  return found.length < WORTH_REMEMBERING ? found.map(({ id }) => id) : null
}

/** No filter, and all domains are visible. */
const EVERYTHING = JSON.stringify([{}, null])
const hasStatus = (organizationId: string, status: string): Statement =>
  sql`a.organization_id = ${organizationId} AND a.last_run_status = ${status}`
const JOIN_ACTIVITY = sql`JOIN pipeline_activity a ON a.pipeline_id = p.id`
const JOIN_DUE = sql`JOIN pipeline_due t ON t.pipeline_id = p.id AND t.organization_id = p.organization_id`
const WITH_ACTIVITY = sql`pipelines p ${JOIN_ACTIVITY}`
/** The times stand last, in the order that `unifyTimes` knows. */
const ITEM = sql`
  p.id, p.name, p.source_name, p.saved_source_id, p.stream, p.destination_name, p.saved_destination_id, p.schedule, p.enabled, p.domain_id, d.name AS domain_name,
  a.last_run_status, p.next_run_at, a.last_run_at, p.created_at`

function selectPage(
  { organization_id }: Pick<Actor, 'organization_id'>,
  where: Statement,
  filter: PipelineFilter,
  page: Paging & { sort?: PipelineSort },
): Statement {
  const { sort = '-created_at' } = page
  const order = orderOf(sort, filter)
  if (filter.q === undefined && sort === '-created_at')
    return sql`SELECT ${ITEM} FROM ${WITH_ACTIVITY} LEFT JOIN domains d ON d.id = p.domain_id
                WHERE ${where} ORDER BY ${order} ${windowOf(page)}`
  // First the ids: a search looks at many names, a sort at all that match, and what decides may be in an index.
  const byRun = sort.endsWith('last_run_at')
  const activity = filter.status === undefined && !byRun ? sql`` : JOIN_ACTIVITY
  const due = sort.endsWith('next_run_at') ? JOIN_DUE : sql``
  const own = byRun ? sql` AND a.organization_id = ${organization_id}` : sql``
  return sql`SELECT ${ITEM} FROM (SELECT p.id FROM pipelines p ${activity} ${due} WHERE ${where}${own} ORDER BY ${order} ${windowOf(page)}) found
               JOIN pipelines p ON p.id = found.id ${JOIN_ACTIVITY} ${due}
               LEFT JOIN domains d ON d.id = p.domain_id ORDER BY ${order}`
}

/** Each is an index, read forwards or backwards; the id decides between equals. */
const ORDERS = {
  '-created_at': sql`p.created_at DESC, p.id`,
  created_at: sql`p.created_at, p.id DESC`,
  name: sql`lower(p.name), p.id`,
  '-name': sql`lower(p.name) DESC, p.id DESC`,
  '-last_run_at': sql`a.last_run_at DESC NULLS LAST, a.pipeline_id`,
  last_run_at: sql`a.last_run_at NULLS FIRST, a.pipeline_id DESC`,
  next_run_at: sql`t.next_run_at, t.pipeline_id`,
  '-next_run_at': sql`t.next_run_at DESC, t.pipeline_id DESC`,
} satisfies Record<PipelineSort, Statement>

/** By the index of the status where that is the filter. */
const STATUS_ORDERS: Partial<Record<PipelineSort, Statement>> = {
  '-created_at': sql`a.created_at DESC, a.pipeline_id`,
  created_at: sql`a.created_at, a.pipeline_id DESC`,
}

const orderOf = (sort: PipelineSort, { status }: PipelineFilter): Statement =>
  (status === undefined ? undefined : STATUS_ORDERS[sort]) ?? ORDERS[sort]

const asJson = (listed: Statement) => sql`coalesce((SELECT json_agg(r)::text FROM (${listed}) r), '[]')`

/**
 * PostgreSQL writes a UTC time with +00:00 and without trailing zeros; everything else here has Z and six digits. The
 * three times at the end of an item are changed in the text: an unescaped quote always ends a string, so nothing inside a
 * name can look like them. Letting PostgreSQL format them would cost twice as much.
 */
const unifyTimes = (json: string): string =>
  json.replace(
    /(\.\d{1,6})?\+00:00"(?=}|,"created_at"|,"last_run_at")/g,
    (_, digits = '.') => `${digits.padEnd(7, '0')}Z"`,
  )

const windowOf = ({ limit, offset }: Paging): Statement => sql`LIMIT ${limit} OFFSET ${offset}`

const DOMAIN_ID = raw('p.domain_id')

function conditions(actor: Pick<Actor, 'organization_id' | 'scope'>, filter: PipelineFilter): Statement {
  const { q } = filter
  const all = [sql`p.organization_id = ${actor.organization_id}${inVisibleDomain(actor, DOMAIN_ID)}`]
  if (filter.status !== undefined) all.push(hasStatus(actor.organization_id, filter.status))
  if (filter.domain_id !== undefined) all.push(sql`p.domain_id = ${filter.domain_id}`)
  if (filter.enabled !== undefined) all.push(sql`p.enabled = ${filter.enabled}`)
  if (filter.scheduled !== undefined) all.push(filter.scheduled ? HAS_SCHEDULE : HAS_NO_SCHEDULE)
  if (filter.source !== undefined) all.push(sql`p.source_name = ${filter.source}`)
  if (filter.destination !== undefined) all.push(sql`p.destination_name = ${filter.destination}`)
  if (filter.saved_source_id !== undefined) all.push(sql`p.saved_source_id = ${filter.saved_source_id}`)
  if (filter.saved_destination_id !== undefined) all.push(sql`p.saved_destination_id = ${filter.saved_destination_id}`)
  // Not LIKE: nothing in the text is a wildcard.
  if (q !== undefined) all.push(sql`position(lower(${q}) IN lower(p.name)) > 0`)
  return join(all, ' AND ')
}

const HAS_SCHEDULE = raw('p.schedule IS NOT NULL')
const HAS_NO_SCHEDULE = raw('p.schedule IS NULL')
