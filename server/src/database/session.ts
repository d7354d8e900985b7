/**
 * A session with our own PostgreSQL: its settings, what is verified about them, and the timeouts that keep a frozen or
 * unreachable side from blocking the other.
 *
 * TimeZone and DateStyle are sent as plain start-up parameters, which poolers pass on; they often drop `options`. The rest
 * is set by one statement right after, which also reads back what matters: a session in another time zone would silently
 * misread every time.
 */
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { OperatorError } from '../errors.ts'

export interface ConnectionSettings {
  connectionString?: string
  /** One for each server, if there are several; the first is `connectionString`. */
  connectionStrings?: string[]
  /** Settings for each session, from `options`. */
  session?: Record<string, string>
  host?: string
  port?: number
  user?: string
  password?: string
  database?: string
  ssl?: boolean | ConnectionOptions
  sslnegotiation?: 'direct'
}

export interface SessionLimits {
  /** The maximum duration of a statement. */
  statementMs: number
  /** The maximum wait for a lock. */
  lockMs: number
  /** A transaction whose client went silent is rolled back after this. */
  idleInTransactionMs: number
}

/** For requests and cleanup. */
export const REQUEST_LIMITS: SessionLimits = { statementMs: 60_000, lockMs: 15_000, idleInTransactionMs: 15_000 }
/** For claims, leases, ends of runs and the schedule: short statements by key that must not hang for a minute. */
export const CONTROL_LIMITS: SessionLimits = { statementMs: 8000, lockMs: 5000, idleInTransactionMs: 8000 }

/** How much longer than the server we wait for an answer: after that it is not slow but gone. */
const ANSWER_MARGIN_MS = 2000
const KEEP_ALIVE_MS = 10_000
const SET_UP_MS = 5000

// With a solid-state disk or in memory, random pages cost about as much as sequential ones. PostgreSQL's default is for
// spinning disks, and makes it scan whole tables of all organizations where an index has the few rows of one. JIT
// compilation of a plan takes longer than any of our statements.
const SETTINGS: Record<string, string> = {
  random_page_cost: '1.1',
  jit: 'off',
  client_min_messages: 'warning',
  default_transaction_isolation: 'read committed',
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '20000',
}

interface StartUp {
  getStartupConf(): Record<string, string>
}
const base = pg.Client.prototype as unknown as StartUp

export class SessionClient extends pg.Client {
  getStartupConf(): Record<string, string> {
    return { ...base.getStartupConf.call(this), TimeZone: 'UTC', DateStyle: 'ISO' }
  }
}

export const sessionOptions = (limits: SessionLimits): pg.PoolConfig => ({
  application_name: 'sluice',
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  connectionTimeoutMillis: 10_000,
  query_timeout: limits.statementMs + ANSWER_MARGIN_MS,
})

/** The server can only be read: it is a standby, or became one. */
export class StandbyError extends Error {
  readonly code = '25006'
  constructor() {
    super('the server cannot be written: it is a standby, or read-only')
  }
}

export interface SessionSetUp {
  limits: SessionLimits
  /** Settings of the operator; they win over ours. */
  settings?: Record<string, string> | undefined
  /** Refuse a server that cannot be written, because another one can. */
  writable?: boolean
}

/** Both names and values come from the operator. */
const literal = (text: string): string => pg.escapeLiteral(text)

interface Checked {
  standby: boolean
  read_only: string
  time_zone: string
  date_style: string
  strings: string
}

/** Sets up a new session. Throws an OperatorError if something in between changes what was set. */
export async function setUpSession(client: pg.ClientBase, { limits, ...own }: SessionSetUp): Promise<void> {
  const settings = {
    ...SETTINGS,
    ...own.settings,
    statement_timeout: String(limits.statementMs),
    lock_timeout: String(limits.lockMs),
    idle_in_transaction_session_timeout: String(limits.idleInTransactionMs),
  }
  const set = Object.entries(settings).map(([name, value]) => `set_config(${literal(name)}, ${literal(value)}, false)`)
  const question = {
    text: `SELECT current_setting('TimeZone') AS time_zone, current_setting('DateStyle') AS date_style,
            current_setting('standard_conforming_strings') AS strings, pg_is_in_recovery() AS standby,
            current_setting('transaction_read_only') AS read_only, ${set.join(', ')}`,
    query_timeout: SET_UP_MS,
  }
  const { rows } = await client.query<Checked>(question).catch((error: Error) => {
    throw explainSettings(error, own.settings)
  })
  const { standby, read_only } = rows[0]!
  if (own.writable && (standby || read_only === 'on')) throw new StandbyError()
  const { time_zone, date_style, strings } = rows[0]!
  if (time_zone !== 'UTC' || !date_style.startsWith('ISO') || strings !== 'on')
    throw new OperatorError(
      `The database session has TimeZone ${time_zone}, DateStyle ${date_style} and standard_conforming_strings ${strings} instead of UTC, ISO and on: something between Sluice and PostgreSQL changes its start-up parameters; a pooler must pass them on.`,
    )
}

/** A setting that PostgreSQL refuses (class 22, 42 or 55) is one from `options`: ours are all known. */
function explainSettings(error: Error, settings: Record<string, string> = {}): Error {
  const { code = '' } = error as { code?: string }
  if (Object.keys(settings).length === 0 || !/^(22|42|55)/.test(code)) return error
  return new OperatorError(`DATABASE_URL: options cannot be used: ${error.message}.`)
}

/** A query whose answer never came. The connection is unusable, even if its socket looks open. */
export const isAnswerMissing = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Query read timeout'

interface Socketed {
  connection: { stream: { destroy(): void; destroyed: boolean } }
}

/** Closes a connection without involving the other side. */
export const dropConnection = (client: pg.ClientBase): void =>
  (client as unknown as Socketed).connection.stream.destroy()

/** The pool hears of it a moment later. */
export const isDropped = (client: pg.ClientBase): boolean => (client as unknown as Socketed).connection.stream.destroyed
