/** Which blobs a source may read that names a run: those of the output of a successful run of its own organization. */

import { isOwnPart } from '../blobs/run-keys.ts'
import { type Queryable, sql } from '../database/database.ts'

export type OutputParts = { key: string; size: number }[]

/**
 * The parts of the wanted runs' outputs by run id; what may not be read is left out, and so is tab-separated text, whose
 * columns nobody kept: read as CSV, its first row would be taken for names, and its nulls for texts. Whatever a row says, only blobs of that
 * very run are handed over.
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
