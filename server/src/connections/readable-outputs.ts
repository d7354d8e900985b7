/** Which blobs a source that names a run may read: those of the output of a successful run of its own organization. */

import { isOwnPart } from '../blobs/run-keys.ts'
import { type Queryable, sql } from '../database/database.ts'

export type OutputParts = { key: string; size: number }[]

/**
 * The parts of the requested runs' outputs by run id. Outputs that may not be read are left out, and so is
 * tab-separated text, because its columns were not stored: read as CSV, its first row would be taken for a header and
 * its nulls for text. Whatever a row says, only blobs of that run are returned.
 */
export async function findReadableParts(
  db: Queryable,
  organizationId: string,
  runIds: readonly string[],
): Promise<Record<string, OutputParts>> {
  if (runIds.length === 0) return {}
  const rows = await db.query<{ id: string; output_parts: OutputParts }>(sql`
    SELECT id, output_parts FROM runs
     WHERE id = ANY(${runIds}::uuid[]) AND organization_id = ${organizationId} AND status = 'success' AND output_parts IS NOT NULL
       AND output_type <> 'text/tab-separated-values'`)
  const own = rows.filter(({ id, output_parts }) =>
    output_parts.every(({ key }) => isOwnPart({ id, organization_id: organizationId }, key)),
  )
  return Object.fromEntries(own.map(({ id, output_parts }) => [id, output_parts]))
}
