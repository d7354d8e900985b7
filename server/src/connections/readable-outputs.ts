/**
 * Which blobs a source that names a run may read: those of the output of a successful run of its own organization. Whoever
 * saves such a source in a pipeline must be able to read the run.
 */

import type { StoredPart } from '../blobs/parts.ts'
import { isOwnPart } from '../blobs/run-keys.ts'
import type { Column } from '../connectors/contract.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { visibleDomain } from '../tenancy/visibility.ts'

interface ReadableOutputs {
  /** By run id. */
  parts: Record<string, StoredPart[]>
  /** Of those that are tab-separated text. */
  columns: Record<string, Column[]>
}

/**
 * The requested runs' outputs. Those that may not be read are left out, and so is tab-separated text of older versions, whose
 * columns were not stored: read as CSV, its first row would be taken for a header and its nulls for text. If a domain is
 * given, only runs of its pipelines count. Whatever a row says, only blobs of that run are returned.
 */
export async function findReadableOutputs(
  db: Queryable,
  organizationId: string,
  runIds: readonly string[],
  domainId: string | null = null,
): Promise<ReadableOutputs> {
  if (runIds.length === 0) return { parts: {}, columns: {} }
  const rows = await db.query<{ id: string; output_parts: StoredPart[]; output_columns: Column[] | null }>(sql`
    SELECT id, output_parts, output_columns FROM runs
     WHERE id = ANY(${runIds}::uuid[]) AND organization_id = ${organizationId} AND status = 'success' AND output_parts IS NOT NULL
       AND (output_type <> 'text/tab-separated-values' OR output_columns IS NOT NULL)
       AND (${domainId}::uuid IS NULL OR EXISTS (SELECT 1 FROM pipelines p WHERE p.id = runs.pipeline_id AND p.domain_id = ${domainId}))`)
  const own = rows.filter(({ id, output_parts }) =>
    output_parts.every(({ key }) => isOwnPart({ id, organization_id: organizationId }, key)),
  )
  return {
    parts: Object.fromEntries(own.map(({ id, output_parts }) => [id, output_parts])),
    columns: Object.fromEntries(
      own.flatMap(({ id, output_columns }) => (output_columns ? [[id, output_columns]] : [])),
    ),
  }
}

/** The first of the runs that does not exist for this actor, or null. */
export async function findUnreadableRun(
  db: Queryable,
  actor: Actor,
  runIds: readonly string[],
): Promise<string | null> {
  if (runIds.length === 0) return null
  const domainId = visibleDomain(actor)
  if (!can(actor, 'pipelines:read', domainId)) return runIds[0]!
  const row = await db.first<{ id: string }>(sql`
    SELECT w.id FROM unnest(${runIds}::uuid[]) AS w (id)
     WHERE NOT EXISTS (
       SELECT 1 FROM runs r JOIN pipelines p ON p.id = r.pipeline_id
        WHERE r.id = w.id AND r.organization_id = ${actor.organization_id} AND (${domainId}::uuid IS NULL OR p.domain_id = ${domainId})) LIMIT 1`)
  return row?.id ?? null
}
