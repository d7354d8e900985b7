/**
 * The connection of a load, made again where it was lost and nothing hangs on it. What a lost COMMIT has done is read from
 * the mark: its lock waits until the server is done with the lost session, and then the mark tells.
 */
import { ConnectorError, type RunLog } from '../../contract.ts'
import { isLostConnection } from '../shared/errors.ts'
import type { Session } from '../shared/session.ts'
import { fencedError, type LoadAttempt, lockMark, type MarkRow } from './marks.ts'

export interface Connection {
  readonly session: Session
  begin(): Promise<void>
  /** `isIn` tells from the mark whether this very transaction was committed. */
  commit(isIn: (mark: MarkRow) => boolean): Promise<void>
  /** The mark, locked; fails where it belongs to another attempt. */
  lockOwnMark(): Promise<MarkRow>
}

export async function openConnection(
  open: () => Promise<Session>,
  attempt: LoadAttempt,
  signal: AbortSignal,
  log: RunLog,
): Promise<Connection> {
  let session = await open()

  async function reopen(error: unknown): Promise<void> {
    if (!isLostConnection(error) || signal.aborted) throw error
    session.destroy()
    session = await open()
    await session.script('BEGIN')
  }

  async function lockOwnMark(): Promise<MarkRow> {
    const mark = await lockMark(session, attempt)
    if (mark === null || mark.seq !== attempt.seq || mark.attempt !== attempt.attempt) throw fencedError()
    return mark
  }

  return {
    get session() {
      return session
    },
    lockOwnMark,
    async begin() {
      // Nothing is open, so a connection that was dropped while the source took its time is simply made again.
      await session.script('BEGIN').catch(reopen)
    },
    async commit(isIn) {
      try {
        const { command } = await session.client.query('COMMIT')
        if (command !== 'COMMIT')
          throw new ConnectorError('internal', 'A transaction was rolled back instead of committed')
      } catch (error) {
        await reopen(error)
        const mark = await lockOwnMark()
        await session.script('COMMIT')
        if (!isIn(mark)) throw error
        log.info('The connection was lost during COMMIT; the mark shows that the rows are in.')
      }
    },
  }
}
