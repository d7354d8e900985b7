/**
 * Counters in windows of 15 minutes that begin with the first attempt. They are rows, so a limit holds across all
 * machines and survives a restart.
 */
import { type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'

const WINDOW_SECONDS = 15 * 60

export interface Limit {
  key: string
  most: number
}

/**
 * Adds to the counters and returns the highest of them. Rows are locked in the order of the keys, so two requests at once
 * cannot wait for each other in a circle.
 */
export async function countAttempt(db: Queryable, keys: readonly string[], cost = 1): Promise<number> {
  const rows = await db.query<{ attempts: number }>(sql`
    INSERT INTO login_attempts AS a (key, attempts) SELECT key, ${cost}::int FROM unnest(${keys}::text[]) key ORDER BY key
    ON CONFLICT (key) DO UPDATE SET
      attempts = CASE WHEN a.window_start > now() - make_interval(secs => ${WINDOW_SECONDS}) THEN a.attempts + ${cost}::int ELSE ${cost}::int END,
      window_start = CASE WHEN a.window_start > now() - make_interval(secs => ${WINDOW_SECONDS}) THEN a.window_start ELSE now() END
    RETURNING attempts`)
  return Math.max(...rows.map(({ attempts }) => attempts))
}

export const forgetAttempts = (db: Queryable, key: string): Promise<number> =>
  db.execute(sql`UPDATE login_attempts SET attempts = 0 WHERE key = ${key} AND attempts > 0`)

/** Throws 429 with Retry-After if one of the limits is reached. */
export async function refuseTooMany(db: Queryable, what: string, limits: readonly Limit[]): Promise<void> {
  const over = await db.first<{ wait: number }>(sql`
    SELECT ceil(${WINDOW_SECONDS} - extract(epoch FROM now() - max(a.window_start)))::int AS wait
      FROM unnest(${limits.map(({ key }) => key)}::text[], ${limits.map(({ most }) => most)}::int[]) AS l (key, most)
      JOIN login_attempts a ON a.key = l.key AND a.attempts >= l.most
     WHERE a.window_start > now() - make_interval(secs => ${WINDOW_SECONDS})
    HAVING count(*) > 0`)
  if (!over) return
  const wait = Math.max(1, over.wait)
  throw new AppError('too_many_requests', `Too many ${what}; try again in ${Math.ceil(wait / 60)} minutes`, {
    'Retry-After': String(wait),
  })
}

/**
 * Counts one attempt against a limit and throws 429 once it is reached. Checked before counting, so that a flood costs only
 * reads, and after it, because many may pass the first check at once.
 */
export async function countWithin(db: Queryable, what: string, limit: Limit): Promise<void> {
  const refuse = () => refuseTooMany(db, what, [limit])
  await refuse()
  if ((await countAttempt(db, [limit.key])) > limit.most) await refuse()
}
