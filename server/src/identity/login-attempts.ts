/**
 * How often somebody may guess. Wrong passwords are counted in the database, per address and per client, so the limit
 * holds across machines. It is looked at once more when a guess's turn to be hashed has come, and few are hashed at a
 * time: of a thousand guesses at once no more get through than are hashed side by side. Right passwords cost nothing,
 * however many people behind one address sign in at once.
 */

import { type Queryable, sql } from '../database/database.ts'
import { parseAddress } from '../egress/addresses.ts'
import { AppError } from '../errors.ts'
import { verifyPassword } from './passwords.ts'

const WINDOW_SECONDS = 15 * 60
const PER_ADDRESS = 10
const PER_CLIENT = 50

export interface Guess {
  email: string
  client_address: string
  /** Null where there is no account or no password: takes the same time, and is wrong. */
  password_hash: string | null
  password: string
}

export async function checkPassword(db: Queryable, guess: Guess): Promise<boolean> {
  const address = `address ${guess.email}`
  const client = `client ${networkOf(guess.client_address)}`
  const refuse = () => refuseTooMany(db, address, client)
  await refuse()
  if (await verifyPassword(guess.password_hash, guess.password, refuse)) {
    await db.execute(sql`UPDATE login_attempts SET attempts = 0 WHERE key = ${address} AND attempts > 0`)
    return true
  }
  // Rows are always taken in this order, so two at once can not wait for each other.
  await db.execute(sql`
    INSERT INTO login_attempts AS a (key, attempts) VALUES (${address}, 1), (${client}, 1)
    ON CONFLICT (key) DO UPDATE SET
      attempts = CASE WHEN a.window_start > now() - make_interval(secs => ${WINDOW_SECONDS}) THEN a.attempts + 1 ELSE 1 END,
      window_start = CASE WHEN a.window_start > now() - make_interval(secs => ${WINDOW_SECONDS}) THEN a.window_start ELSE now() END`)
  return false
}

/** Whoever has an IPv6 address has all of its network, and could come from another one with every guess. */
function networkOf(clientAddress: string): string {
  const address = parseAddress(clientAddress)
  return address?.family === 6 ? `${(address.value >> 64n).toString(16)}::/64` : clientAddress
}

async function refuseTooMany(db: Queryable, address: string, client: string): Promise<void> {
  const over = await db.first<{ wait: number }>(sql`
    SELECT ceil(${WINDOW_SECONDS} - extract(epoch FROM now() - min(window_start)))::int AS wait FROM login_attempts
     WHERE window_start > now() - make_interval(secs => ${WINDOW_SECONDS})
       AND ((key = ${address} AND attempts >= ${PER_ADDRESS}) OR (key = ${client} AND attempts >= ${PER_CLIENT}))
    HAVING count(*) > 0`)
  if (!over) return
  const wait = Math.max(1, over.wait)
  throw new AppError('too_many_requests', `Too many failed sign-ins; try again in ${Math.ceil(wait / 60)} minutes`, {
    'Retry-After': String(wait),
  })
}
