/**
 * Locks on a table that others use. Waiting for one blocks every reader that comes after us, so we wait a short time,
 * back off, and try again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { sha256 } from '../../../sha256.ts'
import { ConnectorError } from '../../contract.ts'
import { errno, errnoOf } from '../shared/errors.ts'
import { quoteText, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readInteger } from '../shared/values.ts'

const WAIT_SECONDS = 5
const PAUSE_MS = 500
const TRIES = 100
const WRITER_SECONDS = 600

/** Runs a statement that needs the table for itself. */
export async function withLock<T>(
  session: Session,
  signal: AbortSignal,
  table: string,
  work: () => Promise<T>,
): Promise<T> {
  await session.run(`SET SESSION lock_wait_timeout = ${WAIT_SECONDS}`)
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await work()
      await session.run('SET SESSION lock_wait_timeout = DEFAULT')
      return result
    } catch (error) {
      if (errnoOf(error) !== errno.lockWaitTimeout) throw error
      if (tries === TRIES)
        throw new ConnectorError(
          'destination',
          `The table ${table} stayed locked by other sessions; end long transactions on it`,
          { transient: true, cause: error },
        )
      await delay(PAUSE_MS, undefined, { signal })
    }
  }
}

/** Names of locks may have 64 characters. */
function lockName(what: string): string {
  return `sluice ${sha256(what).toString('hex').slice(0, 48)}`
}

/** Pipelines that write to the same table take turns, so that two which both merge into it cannot deadlock. */
export async function takeTurn(session: Session, { database, table }: TableName): Promise<() => Promise<void>> {
  const name = quoteText(lockName(`write ${database}.${table}`))
  const [row] = await session.query(`SELECT GET_LOCK(${name}, ${WRITER_SECONDS})`, { taken: orNull(readInteger) })
  if (row?.taken !== 1)
    throw new ConnectorError(
      'destination',
      `Another pipeline has been writing to ${table} for ${WRITER_SECONDS / 60} minutes; this one is tried again`,
      { transient: true },
    )
  return async () => {
    await session.query(`SELECT RELEASE_LOCK(${name})`, { released: orNull(readInteger) })
  }
}

/** Held by the session of an attempt as long as it lives: whoever replaces it finds the session by it. */
export async function holdPresence(session: Session, attempt: string): Promise<void> {
  await session.query(`SELECT GET_LOCK(${quoteText(lockName(attempt))}, 0)`, { taken: orNull(readInteger) })
}

/** Ends the session of an attempt, which may be stopped in the middle of a load and hold its locks for ever. */
export async function endPresence(session: Session, attempt: string): Promise<void> {
  const [row] = await session.query(`SELECT IS_USED_LOCK(${quoteText(lockName(attempt))})`, { id: orNull(readInteger) })
  if (row?.id == null) return
  // Gone in the meantime, or of another user: then its own time-outs end it.
  await session.run(`KILL ${row.id}`).catch(() => {})
}
