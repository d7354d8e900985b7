/**
 * Lists with a total. The page is read first: if the list ends within the page, the total is known, and most lists cost
 * one query. Only a full page is followed by a count, which stops at 10,000, because an exact count of a long list
 * costs twenty times the page.
 */
import { type Queryable, type Statement, sql } from './database.ts'

export const COUNTED_AT_MOST = 10_000
/** A complete list is in memory twice, as rows and as text; beyond this, clients have to page. */
export const RETURNED_AT_MOST = 10_000

/** Before every other id: where reading page by page begins. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000'

export interface Paging {
  /** Null returns all. */
  limit: number | null
  offset: number
}

export interface Listed<Row> {
  rows: Row[]
  total: number
}

/** Counts the rows of a `SELECT 1 FROM … WHERE …`, up to a limit. */
export async function countUpTo(db: Queryable, matches: Statement, most = COUNTED_AT_MOST): Promise<number> {
  const row = await db.first<{ total: number }>(
    sql`SELECT count(*) AS total FROM (${matches} LIMIT ${most}) AS matched`,
  )
  return row!.total
}

/**
 * One page of `ordered` (a SELECT that ends with its ORDER BY) with the total of `matches` (`SELECT 1 FROM … WHERE …` of
 * the same rows).
 */
export async function readList<Row>(
  db: Queryable,
  { limit, offset }: Paging,
  ordered: Statement,
  matches: Statement,
): Promise<Listed<Row>> {
  const most = limit ?? RETURNED_AT_MOST
  const rows = await db.query<Row>(sql`${ordered} LIMIT ${most} OFFSET ${offset}`)
  const endsHere = rows.length < most && (rows.length > 0 || offset === 0)
  const total = endsHere ? Math.min(offset + rows.length, COUNTED_AT_MOST) : await countUpTo(db, matches)
  return { rows, total }
}

/**
 * Has statements planned for their values at each execution. The plan that a prepared statement keeps is made for an average
 * organization, and reads everything of one that has a thousand times as much.
 */
export function plannedEachTime(db: Queryable): Queryable {
  const unnamed = ({ text, values }: Statement): Statement => ({ text, values, name: '' })
  return {
    query: (statement) => db.query(unnamed(statement)),
    first: (statement) => db.first(unnamed(statement)),
    execute: (statement) => db.execute(unnamed(statement)),
  }
}
