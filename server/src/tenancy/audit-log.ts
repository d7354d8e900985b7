/**
 * Reading the audit log: newest first, in the order of (at, id), which every index of the table ends with. A cursor is
 * the id of the last line that was read, so new lines do not shift the pages.
 */

import { join, type Queryable, type Statement, sql } from '../database/database.ts'
import { countUpTo, type Listed } from '../database/lists.ts'
import type { Json } from '../json/json.ts'
import type { Actor } from './actor.ts'

export interface AuditLine {
  id: number
  at: string
  actor_id: string | null
  actor_email: string | null
  api_key_id: string | null
  action: string
  object_type: string
  object_id: string | null
  details: Record<string, Json>
  request_id: string | null
  client_address: string | null
}

export interface AuditFilter {
  actor_id?: string
  action?: string
  object_type?: string
  object_id?: string
  /** From this time on, and before that one. */
  since?: string
  until?: string
}

/** Columns of the CSV form, in this order. */
export const AUDIT_COLUMNS = [
  'id',
  'at',
  'actor_id',
  'actor_email',
  'api_key_id',
  'action',
  'object_type',
  'object_id',
  'details',
  'request_id',
  'client_address',
] as const satisfies (keyof AuditLine)[]

export interface AuditPage {
  limit: number
  offset: number
  /** Only lines older than this one. */
  before?: number | undefined
}

const EXPORT_CHUNK = 1000

export async function listAuditLines(
  db: Queryable,
  actor: Actor,
  filter: AuditFilter,
  page: AuditPage,
): Promise<Listed<AuditLine>> {
  const rows = await readLines(db, actor, filter, page)
  const total =
    page.before === undefined && page.offset === 0 && rows.length < page.limit
      ? rows.length
      : await countUpTo(db, sql`SELECT 1 FROM audit_log WHERE ${matching(actor, filter)}`)
  return { rows, total }
}

/** All lines from a cursor on, up to a limit, chunk by chunk: an export needs no more memory than a page. */
export async function* exportAuditLines(
  db: Queryable,
  actor: Actor,
  filter: AuditFilter,
  { limit = Number.POSITIVE_INFINITY, ...rest }: Omit<AuditPage, 'limit'> & { limit?: number | undefined },
): AsyncGenerator<AuditLine[]> {
  let left = limit
  let { offset, before } = rest
  while (left > 0) {
    const size = Math.min(left, EXPORT_CHUNK)
    const rows = await readLines(db, actor, filter, { limit: size, offset, before })
    if (rows.length > 0) yield rows
    if (rows.length < size) return
    left -= rows.length
    offset = 0
    before = rows.at(-1)!.id
  }
}

const readLines = (
  db: Queryable,
  actor: Actor,
  filter: AuditFilter,
  { limit, offset, before }: AuditPage,
): Promise<AuditLine[]> =>
  db.query(sql`
    SELECT id, at, actor_id, actor_email, api_key_id, action, object_type, object_id, details, request_id, client_address
      FROM audit_log WHERE ${matching(actor, filter)}${before === undefined ? sql`` : olderThan(actor, before)}
     ORDER BY at DESC, id DESC LIMIT ${limit} OFFSET ${offset}`)

const olderThan = (actor: Actor, before: number): Statement => sql`
  AND (at, id) < ((SELECT c.at FROM audit_log c WHERE c.id = ${before} AND c.organization_id = ${actor.organization_id}), ${before}::bigint)`

function matching(actor: Actor, { actor_id, action, object_type, object_id, since, until }: AuditFilter): Statement {
  const conditions = [sql`organization_id = ${actor.organization_id}`]
  if (actor_id !== undefined) conditions.push(sql`actor_id = ${actor_id}`)
  if (action !== undefined) conditions.push(sql`action = ${action}`)
  if (object_type !== undefined) conditions.push(sql`object_type = ${object_type}`)
  if (object_id !== undefined) conditions.push(sql`object_id = ${object_id.toLowerCase()}`)
  if (since !== undefined) conditions.push(sql`at >= ${since}`)
  if (until !== undefined) conditions.push(sql`at < ${until}`)
  return join(conditions, ' AND ')
}
