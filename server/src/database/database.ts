/**
 * The connection to PostgreSQL: two pools, transactions and one listener. Timestamps are returned as ISO 8601 strings
 * in UTC with all their digits, so a row can be sent as a response unchanged.
 */
import pg from 'pg'
import { createListener } from './listener.ts'
import { type Connections, type OpenPool, openPool, type Queryable, type Transactions } from './pool.ts'
import { createServers } from './servers.ts'
import { CONTROL_LIMITS, type ConnectionSettings, isAnswerMissing, REQUEST_LIMITS } from './session.ts'
import { raw, type Statement, script, sql } from './sql.ts'
import { isPoolFull, isUnreachable } from './unreachable.ts'

export { type Connections, KEPT_OPEN, type Queryable, type Transactions } from './pool.ts'
export type { ConnectionSettings } from './session.ts'
export { join, raw, type Statement, script, sql } from './sql.ts'

/** SQLSTATEs that we handle. */
export const UNIQUE_VIOLATION = '23505'
export const FOREIGN_KEY_VIOLATION = '23503'
export const DEADLOCK = '40P01'
export const LOCK_NOT_AVAILABLE = '55P03'
export const NO_PRIVILEGE = '42501'

export const isDatabaseError = (error: unknown, code: string, constraint?: string): boolean =>
  error instanceof pg.DatabaseError &&
  error.code === code &&
  (constraint === undefined || error.constraint === constraint)

export interface Database extends Connections {
  /** Separate connections with short timeouts, for work that must not wait behind requests. */
  control: Connections
  /** Listens for NOTIFY; `onGap` is called whenever messages may have been missed, and once at the beginning. */
  listen(channel: string, onMessage: (payload: string) => void, onGap?: () => void): Promise<() => Promise<void>>
  /** Connections in use and idle, and requests waiting for one. */
  usage(): { total: number; idle: number; waiting: number }
  close(): Promise<void>
}

/** The same for a time in JSON built by PostgreSQL. */
export const isoText = (time: string): Statement => raw(`to_char(${time}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)

/** Connections for claims, leases and ends of runs: few are needed, and slow lists never occupy them. */
const CONTROL_POOL = 3

export function connectDatabase(
  connection: ConnectionSettings,
  poolSize: number,
  onError: (error: Error) => void,
): Database {
  let closing = false
  const report = (error: Error) => {
    if (!closing) onError(error)
  }
  const servers = createServers(connection)
  const setUp = { settings: connection.session, writable: connection.connectionStrings !== undefined }
  // The server is gone without a word. Each idle connection to it would cost the same wait.
  const onSilence = () => {
    servers.doubt()
    for (const pool of [main, control]) pool.dropIdle()
  }
  // A short statement by key was not answered. Nobody should wait a minute for an answer that does not come either.
  const onGone = () => {
    onSilence()
    main.dropUsedFor(LONG_MS)
  }
  const shared = { servers, onSilence, onError: report }
  const main = openPool({ size: poolSize, ...setUp, limits: REQUEST_LIMITS }, shared)
  const control = openPool({ size: CONTROL_POOL, ...setUp, limits: CONTROL_LIMITS }, { ...shared, onSilence: onGone })
  const listener = createListener({
    servers,
    setUp: { ...setUp, limits: CONTROL_LIMITS },
    onError: report,
    onSilence,
  })

  const ask = async () => {
    // Of several servers, whoever is the primary now answers at once; with a single one, only a missing answer tells.
    servers.doubt()
    await servers.require()
    await control.connections.first(script('SELECT 1', PROBE_ANSWER_MS))
  }
  const stopWatching = watchForSilence(main, ask, onGone)

  return {
    ...main.connections,
    control: control.connections,
    listen: (channel, onMessage, onGap = () => {}) => listener.subscribe({ channel, onMessage, onGap }),
    usage() {
      const pools = [main.pool, control.pool]
      const sum = (count: (pool: pg.Pool) => number) => pools.reduce((total, pool) => total + count(pool), 0)
      return {
        total: sum((pool) => pool.totalCount),
        idle: sum((pool) => pool.idleCount),
        waiting: sum((pool) => pool.waitingCount),
      }
    },
    async close() {
      closing = true
      stopWatching()
      await listener.close()
      await Promise.all([main.close(), control.close()])
    },
  }
}

const WATCH_EVERY_MS = 3000
/** Most statements take milliseconds. */
const LONG_MS = 5000
const PROBE_ANSWER_MS = 5000

/**
 * A request may wait a minute for its answer, and nothing says that the server is gone. While one waits for long, a short
 * question on another connection finds out. If that is not answered either, all who wait for long are told so.
 */
function watchForSilence(pool: OpenPool, ask: () => Promise<unknown>, onGone: () => void): () => void {
  let asking = false
  const timer = setInterval(() => {
    if (asking || pool.longestUseMs() < LONG_MS) return
    asking = true
    ask()
      .catch((error: Error) => {
        // A pool that is full says nothing about the server.
        if (isUnreachable(error) && !isPoolFull(error)) onGone()
      })
      .finally(() => {
        asking = false
      })
  }, WATCH_EVERY_MS).unref()
  return () => clearInterval(timer)
}

/**
 * Lets functions that open a transaction of their own work inside of one that is open: each becomes a savepoint, so one that
 * fails is undone alone, and the others stay. Only one at a time.
 */
export const nestIn = (tx: Queryable): Transactions => ({
  ...tx,
  async transaction(work) {
    await tx.execute(sql`SAVEPOINT part`)
    try {
      const result = await work(tx)
      await tx.execute(sql`RELEASE SAVEPOINT part`)
      return result
    } catch (error) {
      if (!isAnswerMissing(error)) await tx.execute(sql`ROLLBACK TO SAVEPOINT part`)
      throw error
    }
  },
})

/** Transactions with the same lock key are serialized; the lock is released with the transaction. */
export const lockForTransaction = (tx: Queryable, key: string) =>
  tx.execute(sql`SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))`)
