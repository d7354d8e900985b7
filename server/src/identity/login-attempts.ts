/**
 * How often somebody may guess a password. Wrong guesses are counted per email address and per client. The limit is checked
 * again right before hashing, and only a few passwords are hashed at a time, so even of a thousand concurrent guesses only
 * a few get past the limit. Right passwords are not counted, so many people behind one address can sign in at once.
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
  /** Null if there is no account or no password; the guess is then wrong, after the same time. */
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
