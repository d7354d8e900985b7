/**
 * Locks on a table that others read. Queueing for one would block every reader that comes after us, so we wait a short
 * time, back off, and try again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ConnectorError } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import type { Session } from '../shared/session.ts'

const WAIT_SECONDS = 5
const PAUSE_MS = 500
const TRIES = 100

/** Pipelines that write to the same table take turns, so that two which both alter it cannot deadlock. */
export async function serializeWriters(session: Session, schema: string, table: string): Promise<void> {
  await session.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 7))', [`sluice ${schema}.${table}`])
}

/** Runs statements that lock `table`, inside the open transaction. */
export async function withLock<T>(
  session: Session,
  signal: AbortSignal,
  table: string,
  work: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    await session.script(`SAVEPOINT before_lock; SET LOCAL lock_timeout = '${WAIT_SECONDS}s'`)
    try {
      const result = await work()
      await session.script('SET LOCAL lock_timeout = 0; RELEASE SAVEPOINT before_lock')
      return result
    } catch (error) {
      if (codeOf(error) !== sqlState.lockNotAvailable) throw error
      await session.script('ROLLBACK TO SAVEPOINT before_lock; SET LOCAL lock_timeout = 0')
      if (tries === TRIES) {
        throw new ConnectorError(
          'destination',
          `The table ${table} stayed locked by other sessions; end long transactions on it`,
          { transient: true, cause: error },
        )
      }
      await delay(PAUSE_MS, undefined, { signal })
    }
  }
}
