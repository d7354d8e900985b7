/**
 * How often one client may register. The answer to a registration reveals whether an address has an account (409), so such
 * an attempt counts for many: a client can test a hundred addresses in 15 minutes and then has to wait.
 */
import type { Queryable } from '../database/database.ts'
import { countAttempt, countWithin } from './attempts.ts'

export const REGISTRATIONS_PER_CLIENT = 1000
export const COST_OF_TAKEN = 10

const keyOf = (client: string) => `register ${client}`

export const countRegistration = (db: Queryable, client: string): Promise<void> =>
  countWithin(db, 'registrations from your network', { key: keyOf(client), most: REGISTRATIONS_PER_CLIENT })

export const countTakenAddress = (db: Queryable, client: string): Promise<number> =>
  countAttempt(db, [keyOf(client)], COST_OF_TAKEN - 1)
