/**
 * How often somebody may guess a password: wrong ones are counted per email address and per client. The limit is checked
 * again when the guess's turn to be hashed has come, and few are hashed at a time, so of a thousand guesses at once only
 * as many get past the limit as are hashed side by side. Right passwords are not counted, however many people behind one
 * address sign in at once.
 */

import type { Queryable } from '../database/database.ts'
import { countAttempt, forgetAttempts, refuseTooMany } from './attempts.ts'
import { networkOf } from './client-network.ts'
import { verifyPassword } from './passwords.ts'

const PER_ADDRESS = 10
const PER_CLIENT = 50

export interface Guess {
  email: string
  client_address: string
  /** Null where there is no account or no password: takes the same time, and is wrong. */
  password_hash: string | null
  password: string
}

export const addressKey = (email: string): string => `address ${email}`

export async function checkPassword(db: Queryable, guess: Guess): Promise<boolean> {
  const client = networkOf(guess.client_address)
  const address = { key: addressKey(guess.email), most: PER_ADDRESS }
  const limits = [address, { key: `client ${client}`, most: PER_CLIENT }]
  const refuse = () => refuseTooMany(db, 'failed sign-ins', limits)
  await refuse()
  if (await verifyPassword({ ...guess, client, before: refuse })) {
    await forgetAttempts(db, address.key)
    return true
  }
  await countAttempt(
    db,
    limits.map(({ key }) => key),
  )
  return false
}
