/**
 * The connection of a load, made again where it was lost and nothing hangs on it. What a lost COMMIT has done is read from
 * the mark: its lock waits until the server is done with the lost session, and then the mark tells.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ConnectorError, type RunLog } from '../../contract.ts'
import { isLostConnection } from '../shared/errors.ts'
import type { Session } from '../shared/session.ts'
import { fencedError, lockMark, type MarkOwner, type MarkRow } from './marks.ts'

const REOPEN_MS = 120_000
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 10_000

const mayPass = (error: unknown): boolean =>
  isLostConnection(error) || (error instanceof ConnectorError && error.transient)

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
  owner: MarkOwner,
  signal: AbortSignal,
  log: RunLog,
): Promise<Connection> {
  let session = await open()

  /** A server that restarts is back within two minutes, or this fails with what it said last. */
  async function reopen(error: unknown): Promise<void> {
    if (!isLostConnection(error) || signal.aborted) throw error
    session.destroy()
    const deadline = Date.now() + REOPEN_MS
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        session = await open()
        await session.script('BEGIN')
        return
      } catch (failure) {
        if (!mayPass(failure) || signal.aborted || Date.now() + pause > deadline) throw failure
        if (pause === FIRST_PAUSE_MS) log.warn('The connection to the destination was lost; trying to reach it again.')
        await delay(pause, undefined, { signal })
      }
    }
  }

  async function lockOwnMark(): Promise<MarkRow> {
    const mark = await lockMark(session, owner)
    if (mark === null || mark.seq !== owner.seq || mark.attempt !== owner.attempt) throw fencedError()
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
