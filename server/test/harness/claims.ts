/** Claims for tests that supervise nothing. */
import type { Queryable } from '../../src/database/database.ts'
import { type ClaimedRun, type ClaimRequest, claim, loadClaimed } from '../../src/runs/claim.ts'

/** Before every organization. */
export const FIRST = '00000000-0000-0000-0000-000000000000'

export async function claimRuns(
  db: Queryable,
  worker: string,
  limits: Pick<ClaimRequest, 'free' | 'perOrganization' | 'leaseSeconds'>,
): Promise<ClaimedRun[]> {
  const claimed = await claim(db, { worker, ...limits, after: FIRST })
  return claimed.run_ids.length === 0 ? [] : loadClaimed(db, claimed)
}
