/**
 * What an actor sees of the pipelines of an organization: all of them, unless they came with a key of one domain. These
 * conditions stand after that of the organization in every statement that reads pipelines or runs, so that whatever lies
 * outside the domain is answered as if it did not exist.
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

/** The same for the id of a pipeline, such as a run has. */
export function ofVisiblePipeline(viewer: Viewer, column: Statement): Statement {
  const domainId = visibleDomain(viewer)
  if (domainId === null) return sql``
  return sql` AND EXISTS (SELECT 1 FROM pipelines seen WHERE seen.id = ${column} AND seen.domain_id = ${domainId})`
}
