/**
 * The connection to PostgreSQL: a pool, transactions and one listener. Timestamps come back as ISO 8601 strings in UTC
 * with all their digits, so a row can be answered as it is.
 */
import pg from 'pg'
import { createListener } from './listener.ts'
import { raw, type Statement, sql } from './sql.ts'

export { join, raw, type Statement, script, sql } from './sql.ts'

/** SQLSTATEs that mean something to us. */
export const UNIQUE_VIOLATION = '23505'
export const FOREIGN_KEY_VIOLATION = '23503'
export const SERIALIZATION_FAILURE = '40001'
export const DEADLOCK = '40P01'

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

export interface Database extends Queryable {
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>
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

// A page costs much the same wherever it lies, on a solid-state disk or in memory. PostgreSQL's own default is for
// turning disks, and makes it read whole tables of all organizations where an index has the few rows of one.
// The plan of a prepared statement is kept. Made while a table is new and small it would read the whole of it for good,
// or until statistics are taken, so an index is always preferred; every list and every look-up has one.
const SESSION =
  '-c random_page_cost=1.1 -c enable_seqscan=off -c TimeZone=UTC -c DateStyle=ISO -c client_min_messages=warning'

export interface ConnectionSettings {
  connectionString?: string
  host?: string
  port?: number
  user?: string
  password?: string
  database?: string
}

export function connectDatabase(
  connection: ConnectionSettings,
  poolSize: number,
  onError: (error: Error) => void,
): Database {
  const options: pg.PoolConfig = {
    ...connection,
    types: types as pg.CustomTypesConfig,
    options: SESSION,
    application_name: 'sluice',
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 30_000,
  }
  const pool = new pg.Pool({ ...options, max: poolSize })
  let closing = false
  // A connection that breaks while idle would otherwise end the process; the pool makes a new one by itself.
  pool.on('error', (error) => {
    if (!closing) onError(error)
  })
  const open = new Set<Promise<void>>()
  pool.on('connect', (client) => {
    const ended = new Promise<void>((resolve) => client.once('end', resolve)).finally(() => open.delete(ended))
    open.add(ended)
  })
  const listener = createListener(options, onError)

  return {
    ...queryable((statement) => pool.query(named(statement))),
    async transaction(work) {
      const client = await pool.connect()
      let broken: Error | undefined
      // Between two queries a lost connection is told by this event alone.
      const onLost = (error: Error) => {
        broken = error
      }
      client.on('error', onLost)
      try {
        await client.query('BEGIN')
        const result = await work(queryable((statement) => client.query(named(statement))))
        await client.query('COMMIT')
        return result
      } catch (error) {
        await client.query('ROLLBACK').catch((failure: Error) => {
          broken = failure
        })
        throw error
      } finally {
        client.off('error', onLost)
        client.release(broken)
      }
    },
    listen: (channel, onMessage, onGap = () => {}) => listener.subscribe({ channel, onMessage, onGap }),
    usage: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    async close() {
      closing = true
      await listener.close()
      await pool.end()
      // The pool only asks its connections to end; whoever stops or drops the database next needs them gone.
      await Promise.all(open)
    },
  }
}

const named = (statement: Statement) =>
  statement.name === ''
    ? { text: statement.text, values: statement.values }
    : { name: statement.name, text: statement.text, values: statement.values }

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
