/**
 * The list of pipelines, as JSON text built by PostgreSQL: the page, its domain names and the last runs in one
 * statement, without creating an object per row here. A test proves that the text matches the response schema.
 */
import { join, type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { COUNTED_AT_MOST, type Paging } from '../database/lists.ts'
import type { Actor } from '../tenancy/actor.ts'
import { inVisibleDomain, visibleDomain } from '../tenancy/visibility.ts'
import { cachedTotal, rememberTotal } from './totals.ts'

export interface PipelineFilter {
  domain_id?: string
  search?: string
  enabled?: boolean
  last_run_status?: string
  source?: string
  saved_source_id?: string
  saved_destination_id?: string
}

export interface ListedJson {
  /** A JSON array. */
  json: string
  total: number
}

const MOST = raw(String(COUNTED_AT_MOST))

export async function listPipelines(
  db: Queryable,
  actor: Pick<Actor, 'organization_id' | 'scope'>,
  filter: PipelineFilter,
  page: Paging,
): Promise<ListedJson> {
  const organizationId = actor.organization_id
  const where = conditions(actor, filter)
  const listed = sql`
      SELECT p.id, p.name, p.schedule, p.enabled, p.domain_id, d.name AS domain_name, p.last_run_status, p.last_run_at, p.created_at
        FROM pipelines p LEFT JOIN domains d ON d.id = p.domain_id
       WHERE ${where} ORDER BY p.created_at DESC, p.id ${windowOf(page)}`
  const isWhole = Object.values(filter).every((value) => value === undefined) && visibleDomain(actor) === null
  const known = isWhole ? cachedTotal(organizationId) : null
  if (known !== null) {
    const { json } = (await db.first<{ json: string }>(sql`SELECT ${asJson(listed)} AS json`))!
    return { json: unifyTimes(json), total: known }
  }
  const remember = rememberTotal(organizationId)
  const row = (await db.first<ListedJson>(sql`
    SELECT ${asJson(listed)} AS json,
           (SELECT count(*)::int FROM (SELECT 1 FROM pipelines p WHERE ${where} LIMIT ${MOST}) c) AS total`))!
  if (isWhole) remember(row.total)
  return { json: unifyTimes(row.json), total: row.total }
}

const asJson = (listed: Statement) => sql`coalesce((SELECT json_agg(r)::text FROM (${listed}) r), '[]')`

/**
 * PostgreSQL writes a UTC time with +00:00 and without trailing zeros; everything else here has Z and six digits. The
 * two times at the end of an item are changed in the text: an unescaped quote always ends a string, so nothing inside a
 * name can look like them. Letting PostgreSQL format them would cost twice as much.
 */
const unifyTimes = (json: string): string =>
  json.replace(/(\.\d{1,6})?\+00:00"(?=}|,"created_at")/g, (_, digits = '.') => `${digits.padEnd(7, '0')}Z"`)

/**
 * The default page is a literal in the statement. With parameters PostgreSQL cannot know how few rows are wanted, so it
 * would plan the statement each time, which costs as much as reading the page.
 */
const windowOf = ({ limit, offset }: Paging): Statement =>
  limit === 100 && offset === 0 ? raw('LIMIT 100') : sql`LIMIT ${limit} OFFSET ${offset}`

const DOMAIN_ID = raw('p.domain_id')

function conditions(actor: Pick<Actor, 'organization_id' | 'scope'>, filter: PipelineFilter): Statement {
  const all = [sql`p.organization_id = ${actor.organization_id}${inVisibleDomain(actor, DOMAIN_ID)}`]
  if (filter.domain_id !== undefined) all.push(sql`p.domain_id = ${filter.domain_id}`)
  if (filter.enabled !== undefined) all.push(sql`p.enabled = ${filter.enabled}`)
  if (filter.last_run_status !== undefined) all.push(sql`p.last_run_status = ${filter.last_run_status}`)
  if (filter.source !== undefined) all.push(sql`p.source_name = ${filter.source}`)
  if (filter.saved_source_id !== undefined) all.push(sql`p.saved_source_id = ${filter.saved_source_id}`)
  if (filter.saved_destination_id !== undefined) all.push(sql`p.saved_destination_id = ${filter.saved_destination_id}`)
  if (filter.search !== undefined && filter.search !== '')
    all.push(sql`position(lower(${filter.search}) IN lower(p.name)) > 0`)
  return join(all, ' AND ')
}
