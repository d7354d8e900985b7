/**
 * The connection to PostgreSQL: two pools, transactions and one listener. Timestamps are returned as ISO 8601 strings
 * in UTC with all their digits, so a row can be sent as a response unchanged.
 */
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { createListener } from './listener.ts'
import {
  CONTROL_LIMITS,
  dropConnection,
  isAnswerMissing,
  REQUEST_LIMITS,
  SessionClient,
  type SessionLimits,
  sessionOptions,
  setUpSession,
} from './session.ts'
import { raw, type Statement, sql } from './sql.ts'
import { DatabaseUnavailable, isUnreachable } from './unreachable.ts'

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

/** What both the database and a transaction can do. */
export interface Queryable {
  query<Row>(statement: Statement): Promise<Row[]>
  /** The first row, or null. */
  first<Row>(statement: Statement): Promise<Row | null>
  /** The number of affected rows. */
  execute(statement: Statement): Promise<number>
}

export interface Connections extends Queryable {
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>
  /** How long ago the database was last unreachable, or a connection broke in use. */
  steadyForMs(): number
}

export interface Database extends Connections {
  /** Separate connections with short timeouts, for work that must not wait behind requests. */
  control: Connections
  /** Listens for NOTIFY; `onGap` is called whenever messages may have been missed, and once at the beginning. */
  listen(channel: string, onMessage: (payload: string) => void, onGap?: () => void): Promise<() => Promise<void>>
  /** Connections in use and idle, and requests waiting for one. */
  usage(): { total: number; idle: number; waiting: number }
  close(): Promise<void>
}

const TIMESTAMPTZ = 1184
const INT8 = 20

const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === TIMESTAMPTZ) return isoTimestamp
    if (oid === INT8) return Number
    return pg.types.getTypeParser(oid, format as 'text')
  },
}

/**
 * '2026-01-02 03:04:05.6789+00' → '2026-01-02T03:04:05.678900Z'. Sessions run in UTC, so the zone is always +00.
 * PostgreSQL drops trailing zeros; with all six digits times also sort as text, and the strictest parsers accept them.
 */
const isoTimestamp = (text: string): string =>
  `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).padEnd(6, '0')}Z`

/** The same for a time in JSON built by PostgreSQL. */
export const isoText = (time: string): Statement => raw(`to_char(${time}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)

export interface ConnectionSettings {
  connectionString?: string
  host?: string
  port?: number
  user?: string
  password?: string
  database?: string
  ssl?: boolean | ConnectionOptions
  sslnegotiation?: 'direct'
}

/** Connections for claims, leases and ends of runs: few are needed, and slow lists never occupy them. */
const CONTROL_POOL = 3

/**
 * Connections that a pool does not close when they are idle. Periodic work should not need more at once: opening a
 * connection costs far more than a small query.
 */
export const KEPT_OPEN = 2

export function connectDatabase(
  connection: ConnectionSettings,
  poolSize: number,
  onError: (error: Error) => void,
): Database {
  let closing = false
  const report = (error: Error) => {
    if (!closing) onError(error)
  }
  const main = openPool(connection, { size: poolSize, limits: REQUEST_LIMITS }, report)
  const control = openPool(connection, { size: CONTROL_POOL, limits: CONTROL_LIMITS }, report)
  const listener = createListener({ ...connection, ...sessionOptions(CONTROL_LIMITS) }, onError)

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
      await listener.close()
      await Promise.all([main.close(), control.close()])
    },
  }
}

interface PoolSettings {
  size: number
  limits: SessionLimits
}

function openPool(
  connection: ConnectionSettings,
  { size, limits }: PoolSettings,
  onError: (error: Error) => void,
): { pool: pg.Pool; connections: Connections; close(): Promise<void> } {
  const pool = new pg.Pool({
    ...connection,
    ...sessionOptions(limits),
    Client: SessionClient,
    types: types as pg.CustomTypesConfig,
    idleTimeoutMillis: 3000,
    min: KEPT_OPEN,
    max: size,
    onConnect: (client) => setUpSession(client, limits),
  })
  // An idle connection that breaks would otherwise end the process; the pool replaces it.
  pool.on('error', onError)
  const open = new Map<pg.PoolClient, Promise<unknown>>()
  const used = new Set<pg.PoolClient>()
  pool.on('connect', (client) => {
    open.set(
      client,
      new Promise((resolve) => client.once('end', resolve)).then(() => open.delete(client)),
    )
  })
  let faultAt = Number.NEGATIVE_INFINITY
  const checkOut = async <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> => {
    try {
      return await useClient(pool, used, work)
    } catch (error) {
      // The server is gone without a word. Each idle connection to it would cost the same wait.
      if (isAnswerMissing(error)) for (const client of open.keys()) if (!used.has(client)) dropConnection(client)
      if (!isUnreachable(error)) throw error
      faultAt = performance.now()
      throw new DatabaseUnavailable(error as Error)
    }
  }

  return {
    pool,
    connections: {
      ...queryable((statement) => checkOut((client) => client.query(named(statement)))),
      transaction: (work) => checkOut((client) => inTransaction(client, work)),
      steadyForMs: () => performance.now() - faultAt,
    },
    async close() {
      await pool.end()
      // The pool only asks its connections to close; the caller needs them gone before it stops or drops the database.
      await Promise.all(open.values())
    },
  }
}

/** A connection for the duration of the work. One that broke, or whose answer never came, is not reused. */
async function useClient<T>(
  pool: pg.Pool,
  used: Set<pg.PoolClient>,
  work: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  used.add(client)
  let broken: Error | undefined
  // Between two queries, only this event reports a lost connection.
  const onLost = (error: Error) => {
    broken = error
  }
  client.on('error', onLost)
  try {
    return await work(client)
  } catch (error) {
    if (isAnswerMissing(error)) {
      broken = error as Error
      dropConnection(client)
    }
    throw error
  } finally {
    used.delete(client)
    client.off('error', onLost)
    client.release(broken)
  }
}

async function inTransaction<T>(client: pg.PoolClient, work: (tx: Queryable) => Promise<T>): Promise<T> {
  try {
    await client.query('BEGIN')
    const result = await work(queryable((statement) => client.query(named(statement))))
    await client.query('COMMIT')
    return result
  } catch (error) {
    if (isAnswerMissing(error)) throw error
    await client.query('ROLLBACK').catch(() => dropConnection(client))
    throw error
  }
}

const named = ({ name, text, values, answerMs }: Statement) => ({
  text,
  values,
  ...(name !== '' && { name }),
  ...(answerMs !== undefined && { query_timeout: answerMs }),
})

function queryable(run: (statement: Statement) => Promise<pg.QueryResult>): Queryable {
  return {
    query: async <Row>(statement: Statement) => (await run(statement)).rows as Row[],
    first: async <Row>(statement: Statement) => ((await run(statement)).rows[0] as Row | undefined) ?? null,
    execute: async (statement) => (await run(statement)).rowCount ?? 0,
  }
}

/** Transactions with the same lock key are serialized; the lock is released with the transaction. */
export const lockForTransaction = (tx: Queryable, key: string) =>
  tx.execute(sql`SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))`)
