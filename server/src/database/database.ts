/**
 * The connection to PostgreSQL: two pools, transactions and one listener. Timestamps come back as ISO 8601 strings in UTC
 * with all their digits, so a row can be answered as it is.
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

/** SQLSTATEs that mean something to us. */
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
  /** How many rows a change hit. */
  execute(statement: Statement): Promise<number>
}

export interface Connections extends Queryable {
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>
  /** How long ago the database could not be reached, or went away in the middle of something. */
  steadyForMs(): number
}

export interface Database extends Connections {
  /** Connections of their own, with short time limits, for what must not wait behind requests. */
  control: Connections
  /** Hears NOTIFY; `onGap` is called whenever messages may have been missed, and once at the beginning. */
  listen(channel: string, onMessage: (payload: string) => void, onGap?: () => void): Promise<() => Promise<void>>
  /** Connections in use, idle and waited for. */
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
 * '2026-01-02 03:04:05.6789+00' → '2026-01-02T03:04:05.678900Z'. Sessions run in UTC, so the zone is always +00. PostgreSQL
 * drops zeros at the end; with all six digits times sort as text too, and the strictest parsers take them.
 */
const isoTimestamp = (text: string): string =>
  `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).padEnd(6, '0')}Z`

/** The same for a time that goes into JSON made by PostgreSQL. */
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

/** Connections for claims, leases and ends of runs: few are needed, and slow lists never take them. */
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
    idleTimeoutMillis: 30_000,
    max: size,
    onConnect: (client) => setUpSession(client, limits),
  })
  // A connection that breaks while idle would otherwise end the process; the pool makes a new one by itself.
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
      // The other side is gone without a word. Each idle connection to it would cost somebody the same wait.
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
      // The pool only asks its connections to end; whoever stops or drops the database next needs them gone.
      await Promise.all(open.values())
    },
  }
}

/** A connection for as long as the work takes. One that broke, or whose answer never came, is not used again. */
async function useClient<T>(
  pool: pg.Pool,
  used: Set<pg.PoolClient>,
  work: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  used.add(client)
  let broken: Error | undefined
  // Between two queries a lost connection is told by this event alone.
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

/** Statements of a session that hold the same lock wait for each other; released with the transaction. */
export const lockForTransaction = (tx: Queryable, key: string) =>
  tx.execute(sql`SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))`)
