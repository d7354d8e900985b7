/**
 * Which pipelines of an organization an actor sees: all of them, except with an API key of one domain. These conditions
 * follow that of the organization in every statement that reads pipelines or runs, so that everything outside the domain
 * looks as if it did not exist.
 */
import { raw, type Statement, sql } from '../database/database.ts'
import type { Powers } from './permissions.ts'

type Viewer = Pick<Powers, 'scope'>

/** The one domain that the actor sees; null: all. */
export const visibleDomain = ({ scope }: Viewer): string | null => scope?.domain_id ?? null

const DOMAIN_ID = raw('domain_id')

/** ` AND domain_id = …`, or nothing. */
export function inVisibleDomain(viewer: Viewer, column: Statement = DOMAIN_ID): Statement {
  const domainId = visibleDomain(viewer)
  return domainId === null ? sql`` : sql` AND ${column} = ${domainId}`
}

/** The same for a column that holds the id of a pipeline. */
export function ofVisiblePipeline(viewer: Viewer, column: Statement): Statement {
  const domainId = visibleDomain(viewer)
  if (domainId === null) return sql``
  return sql` AND EXISTS (SELECT 1 FROM pipelines seen WHERE seen.id = ${column} AND seen.domain_id = ${domainId})`
}
