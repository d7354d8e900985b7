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

/** Repeats what gives up a lock that it does not get at once, and has undone its work by then. */
export async function retryWhileLocked<T>(
  { table, tries, signal }: { table: string; tries: number; signal: AbortSignal },
  attempt: () => Promise<T>,
): Promise<T> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await attempt()
    } catch (error) {
      if (codeOf(error) !== sqlState.lockNotAvailable) throw error
      if (tried === tries) throw stayedLocked(table, error)
      await delay(PAUSE_MS, undefined, { signal })
    }
  }
}

function stayedLocked(table: string, cause: unknown): ConnectorError {
  const message = `The table ${table} stayed locked by other sessions; end long transactions on it`
  return new ConnectorError('destination', message, { transient: true, cause })
}

/** Runs statements that lock `table`, inside the open transaction. */
export function withLock<T>(session: Session, signal: AbortSignal, table: string, work: () => Promise<T>): Promise<T> {
  return retryWhileLocked({ table, tries: TRIES, signal }, async () => {
    await session.script(`SAVEPOINT before_lock; SET LOCAL lock_timeout = '${WAIT_SECONDS}s'`)
    try {
      const result = await work()
      await session.script('SET LOCAL lock_timeout = 0; RELEASE SAVEPOINT before_lock')
      return result
    } catch (error) {
      if (codeOf(error) === sqlState.lockNotAvailable)
        await session.script('ROLLBACK TO SAVEPOINT before_lock; SET LOCAL lock_timeout = 0')
      throw error
    }
  })
}
