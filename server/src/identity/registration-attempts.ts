/**
 * How often one client may register. The answer to a registration reveals whether an address has an account (409), so such
 * an attempt counts for many: a client can test a hundred addresses in 15 minutes and then has to wait.
 */
import type { Queryable } from '../database/database.ts'
import { countAttempt, refuseTooMany } from './attempts.ts'

export const REGISTRATIONS_PER_CLIENT = 1000
export const COST_OF_TAKEN = 10

const keyOf = (client: string) => `register ${client}`

export async function countRegistration(db: Queryable, client: string): Promise<void> {
  const limit = { key: keyOf(client), most: REGISTRATIONS_PER_CLIENT }
  const refuse = () => refuseTooMany(db, 'registrations from your network', [limit])
  // Checked before counting, so that a flood costs only reads, and after it, because many may pass the first check at once.
  await refuse()
  if ((await countAttempt(db, [limit.key])) > limit.most) await refuse()
}

export const countTakenAddress = (db: Queryable, client: string): Promise<number> =>
  countAttempt(db, [keyOf(client)], COST_OF_TAKEN - 1)
