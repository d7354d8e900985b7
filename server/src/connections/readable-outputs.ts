/** Which blobs a source may read that names a run: those of the output of a successful run of its own organization. */

import { isOwnPart } from '../blobs/run-keys.ts'
import { type Queryable, sql } from '../database/database.ts'

export type OutputParts = { key: string; size: number }[]

/** Whatever the row says, only blobs of that very run are handed over. */
export async function findReadableParts(
  db: Queryable,
  organizationId: string,
  runId: string,
): Promise<OutputParts | null> {
  const id = runId.toLowerCase()
  const row = await db.first<{ output_parts: OutputParts }>(sql`
    SELECT output_parts FROM runs WHERE id::text = ${id} AND organization_id = ${organizationId} AND status = 'success' AND output_parts IS NOT NULL`)
  if (!row) return null
  return row.output_parts.every(({ key }) => isOwnPart({ id, organization_id: organizationId }, key))
    ? row.output_parts
    : null
}
