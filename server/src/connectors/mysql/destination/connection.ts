/**
 * The session of a load, reopened when it was lost and no transaction is open. The outcome of a lost COMMIT is read from
 * the mark: locking it waits until the server is done with the lost session.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ConnectorError, type RunLog } from '../../contract.ts'
import { isLostConnection } from '../shared/errors.ts'
import type { Session } from '../shared/session.ts'
import { fencedError, isOwn, lockMark, type MarkOwner, type MarkRow } from './marks.ts'

const REOPEN_MS = 120_000
const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 10_000

const isTransient = (error: unknown): boolean =>
  isLostConnection(error) || (error instanceof ConnectorError && error.transient)

export interface LoadConnection {
  readonly session: Session
  /** Opens a transaction. A connection that was dropped while the source was slow is reopened, if `mayReopen`. */
  begin(mayReopen: boolean): Promise<void>
  /** `wasCommitted` decides from the mark whether this very transaction was committed. */
  commit(wasCommitted: (mark: MarkRow) => boolean): Promise<void>
  /** The mark, locked; fails if it belongs to another attempt. */
  lockOwnMark(): Promise<MarkRow>
}

export async function openLoadConnection(
  open: () => Promise<Session>,
  owner: MarkOwner,
  signal: AbortSignal,
  log: RunLog,
): Promise<LoadConnection> {
  let session = await open()

  /** A restarting server is back within two minutes, or this fails with its last error. */
  async function reopen(error: unknown): Promise<void> {
    if (!isLostConnection(error) || signal.aborted) throw error
    session.destroy()
    const deadline = Date.now() + REOPEN_MS
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      try {
        session = await open()
        await session.run('START TRANSACTION')
        return
      } catch (failure) {
        if (!isTransient(failure) || signal.aborted || Date.now() + pause > deadline) throw failure
        if (pause === FIRST_PAUSE_MS) log.warn('The connection to the destination was lost; trying to reach it again.')
        await delay(pause, undefined, { signal })
      }
    }
  }

  async function lockOwnMark(): Promise<MarkRow> {
    const mark = await lockMark(session, owner)
    if (mark === null || !isOwn(mark, owner)) throw fencedError(mark, owner)
    return mark
  }

  return {
    get session() {
      return session
    },
    lockOwnMark,
    async begin(mayReopen) {
      await session.run('START TRANSACTION').catch((error: unknown) => {
        if (!mayReopen) throw error
        return reopen(error)
      })
    },
    async commit(wasCommitted) {
      try {
        await session.run('COMMIT')
      } catch (error) {
        await reopen(error)
        const mark = await lockOwnMark()
        await session.run('COMMIT')
        if (!wasCommitted(mark)) throw error
        log.info('The connection was lost during COMMIT; the mark shows that the rows were committed.')
      }
    },
  }
}
