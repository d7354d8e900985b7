/**
 * How often somebody may guess. An attempt is counted before the password is looked at and taken back when it was right,
 * in one row per address and per client: attempts made at once queue up on the row, so none slips through.
 */
import { AppError } from '../errors.ts'
import { type Queryable, sql } from '../storage/database.ts'

const WINDOW_SECONDS = 15 * 60
const PER_ADDRESS = 10
const PER_CLIENT = 50

const keysOf = (email: string, clientAddress: string) => [`address ${email}`, `client ${clientAddress}`]

export async function countLoginAttempt(db: Queryable, email: string, clientAddress: string): Promise<void> {
  const rows = await db.query<{ key: string; attempts: number; wait: number }>(sql`
    INSERT INTO login_attempts AS a (key, attempts) SELECT key, 1 FROM unnest(${keysOf(email, clientAddress)}::text[]) AS key
    ON CONFLICT (key) DO UPDATE SET
      attempts = CASE WHEN a.window_start > now() - make_interval(secs => ${WINDOW_SECONDS}) THEN a.attempts + 1 ELSE 1 END,
      window_start = CASE WHEN a.window_start > now() - make_interval(secs => ${WINDOW_SECONDS}) THEN a.window_start ELSE now() END
    RETURNING key, attempts, ceil(${WINDOW_SECONDS} - extract(epoch FROM now() - window_start))::int AS wait`)
  const over = rows.filter((row) => row.attempts > (row.key.startsWith('address ') ? PER_ADDRESS : PER_CLIENT))
  if (over.length === 0) return
  const wait = Math.max(1, ...over.map((row) => row.wait))
  throw new AppError('too_many_requests', `Too many failed sign-ins; try again in ${Math.ceil(wait / 60)} minutes`, {
    'Retry-After': String(wait),
  })
}

/** A sign-in that succeeded: the address starts afresh, the client gets this one attempt back. */
export const forgiveLoginAttempt = (db: Queryable, email: string, clientAddress: string): Promise<number> => {
  const [address, client] = keysOf(email, clientAddress)
  return db.execute(sql`
    UPDATE login_attempts SET attempts = CASE WHEN key = ${address} THEN 0 ELSE greatest(0, attempts - 1) END
     WHERE key IN (${address}, ${client})`)
}
