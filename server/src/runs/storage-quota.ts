/**
 * ORG_STORAGE_GB: the limit for the outputs and quarantines of an organization in the blob store. What counts is what they take there,
 * compressed, because that is what the operator pays for.
 */
import { type StoredPart, sumStored } from '../blobs/parts.ts'
import { sql } from '../database/database.ts'
import { retryWhileUnavailable } from '../database/retry-while-unavailable.ts'
import type { ClaimedRun } from './claim.ts'
import type { WorkerServices } from './worker-services.ts'

/** Why the run may not store these parts in addition to what its organization already has, or null. */
export async function findQuotaFault(
  { db, config }: WorkerServices,
  run: ClaimedRun,
  parts: readonly StoredPart[],
): Promise<string | null> {
  const gigabytes = config.ORG_STORAGE_GB
  if (gigabytes === undefined) return null
  const own = sumStored(parts)
  const row = await retryWhileUnavailable(() =>
    db.control.first<{ stored_bytes: number }>(
      sql`SELECT stored_bytes FROM organization_storage WHERE organization_id = ${run.organization_id}`,
    ),
  )
  if ((row?.stored_bytes ?? 0) + own <= gigabytes * 1e9) return null
  return `the outputs of your organization would exceed ${gigabytes} GB; delete pipelines that are no longer needed, or set config.run.keep_output to false`
}
