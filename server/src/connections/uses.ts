/**
 * What uses a saved connector or a custom source. Saving a reference to one locks its row (FOR KEY SHARE) until the
 * commit, and a deletion with if_unused locks the row first: so either the deletion sees the new pipeline, or the
 * pipeline is refused because the row is gone.
 */
import { findSource } from '../connectors/registry.ts'
import { type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { COUNTED_AT_MOST } from '../database/lists.ts'
import { AppError } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { inVisibleDomain, visibleDomain } from '../tenancy/visibility.ts'
import type { Wanted } from './references.ts'

/** A bounded list of those the caller may see, and the total number, counted to 10,000. */
interface UsedBy {
  pipelines: { id: string; name: string }[]
  pipeline_count: number
  saved_sources: { id: string; name: string }[]
  saved_source_count: number
}

/** Of a custom source or manifest in a list. */
export interface SourceUse {
  changed_at: string
  pipeline_count: number
}

type Used = { saved: 'source' | 'destination'; id: string } | { custom: string }

const MAX_LISTED = 20
const MAX_NAMED = 5

/** Whether saving a config with these references has rows to lock, and so needs a transaction. */
export const refersToRows = ({ source_id, source_name, destination_id }: Wanted): boolean =>
  source_id !== null || destination_id !== null || (source_name !== null && !findSource(source_name))

/** Locks them, so that they cannot be deleted as unused before the transaction ends. */
export async function holdReferences(tx: Queryable, organizationId: string, wanted: Wanted): Promise<void> {
  if (!refersToRows(wanted)) return
  const ids = [wanted.source_id, wanted.destination_id].filter((id) => id !== null)
  await tx.execute(sql`
    WITH saved AS (
      SELECT id, connector_name FROM saved_connectors WHERE organization_id = ${organizationId} AND id = ANY(${ids}::uuid[]) ORDER BY id FOR KEY SHARE
    ), custom AS (
      SELECT 1 FROM custom_sources WHERE organization_id = ${organizationId}
         AND source_name = coalesce((SELECT connector_name FROM saved WHERE id = ${wanted.source_id}), ${wanted.source_name}::text) FOR KEY SHARE
    )
    SELECT (SELECT count(*) FROM saved), (SELECT count(*) FROM custom)`)
}

/** Call with the row locked for update. The error lists what uses it. */
export async function requireUnused(tx: Queryable, actor: Actor, used: Used): Promise<void> {
  const usedBy = await findUses(tx, actor, used)
  const total = usedBy.pipeline_count + usedBy.saved_source_count
  if (total === 0) return
  throw new AppError('conflict', describeUses(usedBy), {}, { used_by: usedBy })
}

async function findUses(tx: Queryable, actor: Actor, used: Used): Promise<UsedBy> {
  const own = sql`organization_id = ${actor.organization_id}`
  const matching =
    'custom' in used
      ? sql`source_name = ${used.custom}`
      : used.saved === 'source'
        ? sql`saved_source_id = ${used.id}`
        : sql`saved_destination_id = ${used.id}`
  const seesPipelines = can(actor, 'pipelines:read', visibleDomain(actor))
  const pipelines = sql`FROM pipelines WHERE ${own} AND ${matching}`
  const saved = sql`FROM saved_connectors WHERE ${own} AND type = 'source' AND connector_name = ${'custom' in used ? used.custom : null}`
  return (await tx.first<UsedBy>(sql`
    SELECT ${firstOf(sql`${pipelines}${seesPipelines ? inVisibleDomain(actor) : sql` AND false`}`)} AS pipelines, ${countOf(pipelines)} AS pipeline_count,
           ${firstOf(sql`${saved}${can(actor, 'connectors:read') ? sql`` : sql` AND false`}`)} AS saved_sources, ${countOf(saved)} AS saved_source_count`))!
}

const firstOf = (rows: Statement) => sql`
  (SELECT coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'name', u.name) ORDER BY u.created_at DESC, u.id), '[]')
     FROM (SELECT id, name, created_at ${rows} ORDER BY created_at DESC, id LIMIT ${raw(String(MAX_LISTED))}) u)`

const countOf = (rows: Statement): Statement =>
  sql`(SELECT count(*)::int FROM (SELECT 1 ${rows} LIMIT ${raw(String(COUNTED_AT_MOST))}) u)`

/** Columns of `c`, the custom source. */
export const sourceUse: Statement = sql`
  coalesce(c.updated_at, c.created_at) AS changed_at,
  ${countOf(sql`FROM pipelines WHERE organization_id = c.organization_id AND source_name = c.source_name`)} AS pipeline_count`

function describeUses({ pipelines, pipeline_count, saved_sources, saved_source_count }: UsedBy): string {
  const users = [
    describe(pipelines, pipeline_count, 'pipeline'),
    describe(saved_sources, saved_source_count, 'saved source'),
  ].filter((part) => part !== '')
  return `It is in use: ${users.join('; ')}. Change or delete these first, or delete it without if_unused`
}

function describe(shown: readonly { name: string }[], count: number, word: string): string {
  if (count === 0) return ''
  const named = shown.slice(0, MAX_NAMED).map(({ name }) => `'${name.slice(0, 100)}'`)
  const names = count > named.length && named.length > 0 ? [...named, 'and others'] : named
  const many = count >= COUNTED_AT_MOST ? `${COUNTED_AT_MOST} or more` : count
  return `${many} ${word}${count === 1 ? '' : 's'}${names.length > 0 ? ` (${names.join(', ')})` : ''}`
}
