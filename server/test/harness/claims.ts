/** Claims for tests that supervise nothing. */
import type { Queryable } from '../../src/database/database.ts'
import { NIL_UUID } from '../../src/database/lists.ts'
import { type ClaimedRun, type ClaimRequest, claim, loadClaimed } from '../../src/runs/claim.ts'

export async function claimRuns(
  db: Queryable,
  worker: string,
  limits: Pick<ClaimRequest, 'free' | 'perOrganization' | 'leaseSeconds'>,
): Promise<ClaimedRun[]> {
  const claimed = await claim(db, { worker, ...limits, after: NIL_UUID })
  return claimed.run_ids.length === 0 ? [] : loadClaimed(db, claimed)
}
