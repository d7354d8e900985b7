/**
 * A session with a MySQL or MariaDB server over a socket that `egress` has vetted. Every setting that affects how values
 * are written or compared is pinned: UTC, utf8mb4, strict mode, backslash escapes.
 */
import type { Socket } from 'node:net'
import type { Egress } from '../../../egress/policy.ts'
import { ConnectorError } from '../../contract.ts'
import { explainFailure, type Side } from './errors.ts'
import { quoteText } from './names.ts'
import type { Target } from './settings.ts'
import { type RowOf, readInteger, type Shape } from './values.ts'
import { Connection, type LocalRows, type RowTaker } from './wire/connection.ts'
import { login } from './wire/login.ts'
import { type ColumnDefinition, Cursor, type Done } from './wire/packets.ts'
import { Violation } from './wire/violation.ts'

export interface SessionOptions {
  egress: Egress
  signal: AbortSignal
  side: Side
  /** Shown in performance_schema. */
  program: string
  /** 0: none. */
  statementTimeoutSeconds?: number
}

export interface Session {
  readonly connection: Connection
  readonly server: ServerVersion
  /** The rows, with the columns in the order of `shape`, converted to its types. */
  query<S extends Shape>(text: string, shape: S): Promise<RowOf<S>[]>
  /** One statement without rows. */
  run(text: string): Promise<Done>
  /** A statement whose rows go to the taker, as the server sends them. */
  stream(text: string, taker: RowTaker): Promise<Done>
  /** The columns of a query; it must not have rows. */
  describe(text: string): Promise<readonly ColumnDefinition[]>
  load(text: string, name: string): Promise<LocalRows>
  /** The error for an answer that no MySQL server would give. */
  violation(reason: string): ConnectorError
  /** Closes gracefully. Never throws. */
  close(): Promise<void>
  /** Drops the connection at once; the server rolls back what is open. */
  destroy(): void
}

interface ServerVersion {
  maria: boolean
  /** 101100 for 10.11.x, 80400 for 8.4.x. */
  number: number
  text: string
}

/** From the first byte to the pinned settings. */
const openTimeoutMs = 15_000
/** Questions about the catalog. */
const catalogSilenceMs = 120_000
const MAX_CATALOG_BYTES = 32 * 1024 * 1024
/** Added to the statement timeout, so that the server's own error can arrive first. */
const silenceMarginMs = 60_000
/** A reader or writer on our side may be slow; the server must not take that for a dead one. */
const DAY = 86_400
/** max_allowed_packet cannot be less. */
const SHORTEST_PACKET = 1024

export async function openSession(target: Target, options: SessionOptions): Promise<Session> {
  try {
    return await connect(target, options)
  } catch (error) {
    options.signal.throwIfAborted()
    throw explainFailure(error, options.side, describeTarget(target))
  }
}

export function describeTarget(target: Target): string {
  return `MySQL at ${target.host}:${target.port}`
}

async function connect(target: Target, options: SessionOptions): Promise<Session> {
  const { signal, side } = options
  const violation = (cause: Violation) =>
    new ConnectorError(side, `The server at ${target.host}:${target.port} ${cause.verdict}: ${cause.message}`, {
      cause,
    })
  const silence = (seconds: number) =>
    new ConnectorError(side, `${describeTarget(target)} has not answered for ${seconds} seconds`, { transient: true })
  const socket = await options.egress.connect(target.host, target.port, { signal })
  const connection = new Connection(socket, { violation, silence })
  const late = new ConnectorError(
    side,
    `${describeTarget(target)} did not complete the login within ${openTimeoutMs / 1000} seconds`,
    {
      transient: true,
    },
  )
  const timer = setTimeout(() => end(connection, socket, late), openTimeoutMs)
  const abort = () => end(connection, socket, signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', abort))
  try {
    socket.setNoDelay(true).setKeepAlive(true, 30_000)
    const { version } = await login(connection, { target, localRows: side === 'destination', program: options.program })
    const server = readVersion(version)
    const session = createSession({
      connection,
      server,
      options,
      violation,
      destroy: () => end(connection, socket, closedByUs()),
    })
    await pinSettings(session, options)
    return session
  } catch (error) {
    const failure = connection.failure ?? error
    end(connection, socket, failure as Error)
    throw failure instanceof Violation ? violation(failure) : failure
  } finally {
    clearTimeout(timer)
  }
}

const closedByUs = (): Error => new Error('the connection was closed')

function end(connection: Connection, socket: Socket, error: Error): void {
  connection.fail(error)
  socket.destroy()
}

/** MariaDB introduces itself as 5.5.5-10.11.6-MariaDB to old clients. */
function readVersion(text: string): ServerVersion {
  const maria = /mariadb/i.test(text)
  const [, major = '0', minor = '0', patch = '0'] = /^(?:5\.5\.5-)?(\d{1,3})\.(\d{1,3})\.(\d{1,3})/.exec(text) ?? []
  return { maria, number: Number(major) * 10_000 + Number(minor) * 100 + Number(patch), text }
}

async function pinSettings(session: Session, options: SessionOptions): Promise<void> {
  const { side, statementTimeoutSeconds = 0 } = options
  await session.run('SET NAMES utf8mb4')
  const settings = [
    `time_zone = '+00:00'`,
    // Nothing may be cut or rounded silently where we write; where we read, dates that do not exist must be readable.
    `sql_mode = ${quoteText(side === 'source' ? '' : 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION')}`,
    'autocommit = 1',
    `net_write_timeout = ${7 * DAY}`,
    `net_read_timeout = ${DAY}`,
    `wait_timeout = ${DAY}`,
    'sql_select_limit = DEFAULT',
    'max_error_count = 64',
    // Seconds for every statement in MariaDB, milliseconds for SELECT in MySQL.
    session.server.maria
      ? `max_statement_time = ${statementTimeoutSeconds}`
      : `max_execution_time = ${Math.min(statementTimeoutSeconds * 1000, 0xffffffff)}`,
  ]
  await session.run(`SET SESSION ${settings.join(', SESSION ')}`)
  await session.run(
    `SET SESSION TRANSACTION ISOLATION LEVEL ${side === 'source' ? 'REPEATABLE READ' : 'READ COMMITTED'}`,
  )
  // Only a destination sends statements that could be too long.
  if (side === 'source') return
  const [row] = await session.query('SELECT @@max_allowed_packet', { bytes: readInteger })
  if (row !== undefined) session.connection.mostSent = Math.max(row.bytes, SHORTEST_PACKET)
}

interface SessionParts {
  connection: Connection
  server: ServerVersion
  options: SessionOptions
  violation(violation: Violation): ConnectorError
  destroy(): void
}

function createSession({ connection, server, options, violation, destroy }: SessionParts): Session {
  const { statementTimeoutSeconds = 0 } = options
  const silenceMs = statementTimeoutSeconds > 0 ? statementTimeoutSeconds * 1000 + silenceMarginMs : null
  /** A server that breaks the rules between two queries is reported by the next one. */
  const reported = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      throw connection.failure ?? error
    }
  }
  return {
    connection,
    server,
    violation: (reason) => violation(new Violation(reason)),
    async query<S extends Shape>(text: string, shape: S) {
      const rows = new RowCollector(shape)
      await reported(connection.query(text, { taker: rows, mostBytes: MAX_CATALOG_BYTES, silenceMs: catalogSilenceMs }))
      return rows.rows as RowOf<S>[]
    },
    run: (text) => reported(connection.query(text, { silenceMs })),
    stream: (text, taker) => reported(connection.query(text, { taker, silenceMs })),
    async describe(text) {
      let found: readonly ColumnDefinition[] = []
      const taker: RowTaker = {
        columns: (columns) => {
          found = columns
        },
        row: () => {
          throw new Violation('it sent rows where none were asked for')
        },
      }
      await reported(connection.query(text, { taker, silenceMs: catalogSilenceMs }))
      return found
    },
    load: (text, name) => reported(connection.load(text, name)),
    close: () => connection.quit().catch(() => {}),
    destroy,
  }
}

const MAX_ROWS = 250_000

/** Keeps the rows of a small result as objects of the shape. */
class RowCollector implements RowTaker {
  readonly rows: Record<string, unknown>[] = []
  readonly #readers: [string, (text: string | null) => unknown][]

  constructor(shape: Shape) {
    this.#readers = Object.entries(shape)
  }

  columns(columns: readonly ColumnDefinition[]): void {
    if (columns.length !== this.#readers.length)
      throw new Violation(`it answered with ${columns.length} columns where ${this.#readers.length} were asked for`)
  }

  row(bytes: Buffer, at: number, end: number): void {
    const cursor = new Cursor(bytes, at, end, 'row')
    const row: Record<string, unknown> = {}
    for (const [name, read] of this.#readers) {
      const isNull = cursor.left > 0 && bytes[cursor.at] === 0xfb
      if (isNull) cursor.at += 1
      const value = read(isNull ? null : cursor.text())
      if (value === undefined) throw new Violation(`it answered a query without a valid value for the column ${name}`)
      row[name] = value
    }
    if (cursor.left > 0) throw new Violation('it sent a row with more values than columns')
    if (this.rows.push(row) > MAX_ROWS)
      throw new Violation(`it answered a query with more than ${MAX_ROWS} rows`, 'sends too much')
  }
}
