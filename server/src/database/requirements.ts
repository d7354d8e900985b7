/**
 * What Sluice requires of a database, checked once at the start: if something is missing, one clear message replaces a
 * stack trace, or runs that misbehave for days. Nothing here uses a prepared statement, because some poolers do not
 * support them.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import { type Database, script } from './database.ts'

const OLDEST_POSTGRES = 13
const ARRIVES_WITHIN_MS = 5000

export async function requireDatabase(db: Database): Promise<void> {
  const server = await db
    .first<{ version: string; standby: boolean; read_only: string }>(
      script(
        `SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby, current_setting('transaction_read_only') AS read_only`,
      ),
    )
    .catch((error: Error) => {
      if (error instanceof OperatorError) throw error
      throw new OperatorError(
        `The database of DATABASE_URL cannot be used: ${error.message || (error as { code?: string }).code}. Check the address, the user and the password.`,
      )
    })
  const { version, standby, read_only } = server!
  if (Number.parseInt(version, 10) < OLDEST_POSTGRES)
    throw new OperatorError(
      `The database of DATABASE_URL is PostgreSQL ${version}; Sluice needs ${OLDEST_POSTGRES} or later.`,
    )
  if (standby || read_only === 'on')
    throw new OperatorError(
      `The database of DATABASE_URL ${standby ? 'is a standby' : 'is read-only'}: nothing can be written there; name the primary in DATABASE_URL.`,
    )
  await requireNotifications(db)
}

/**
 * A pooler in transaction mode loses session settings and receives no notifications. Whether there is one in between
 * shows by a message to ourselves that does not arrive.
 */
async function requireNotifications(db: Database): Promise<void> {
  const channel = `sluice_${randomBytes(8).toString('hex')}`
  const received = Promise.withResolvers<true>()
  const stop = await db.listen(channel, () => received.resolve(true))
  try {
    await db.execute(script(`SELECT pg_notify('${channel}', '')`))
    const arrived = await Promise.race([received.promise, delay(ARRIVES_WITHIN_MS, false, { ref: false })])
    if (!arrived)
      throw new OperatorError(
        'Notifications of the database of DATABASE_URL do not arrive, as behind a pooler in transaction mode; use session mode (pgbouncer: pool_mode = session), or connect to PostgreSQL directly.',
      )
  } finally {
    await stop()
  }
}
