/**
 * A connection to PostgreSQL over a socket that `egress` has vetted. There may be a pooler in transaction mode in between:
 * it gives each transaction any one of its connections, and that connection to the tenant's application next. So every
 * statement runs inside a transaction, all settings are pinned for that transaction only (pinned-settings.ts), and nothing
 * outlives it: no session setting, named statement, temporary table or session lock. The only startup parameters are
 * those that poolers track per client: user, database, application_name, client_encoding.
 */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import type { Egress } from '../../../egress/policy.ts'
import { ConnectorError } from '../../contract.ts'
import { explainFailure, type Side } from './errors.ts'
import { quoteText } from './names.ts'
import { type PinnedOptions, pinSettingsSql } from './pinned-settings.ts'
import type { Target } from './settings.ts'
import { type RowOf, readRows, type Shape, textParsers } from './values.ts'
import { MAX_SCRAM_ROUNDS, Violation } from './wire/frames.ts'
import { GuardedSocket } from './wire/guarded-socket.ts'
import { startTls } from './wire/tls.ts'

export interface SessionOptions extends PinnedOptions {
  egress: Egress
  signal: AbortSignal
  side: Side
  /** Shown in pg_stat_activity; a later attempt uses it to find and end an earlier one. */
  application: string
  readOnly?: boolean
}

interface TransactionOptions {
  /** Sees one snapshot of the database from its first statement to its end. */
  repeatable?: boolean
  /** The snapshot that another session has exported. */
  snapshot?: string
}

export interface Session {
  readonly client: pg.Client
  /** 180004 for 18.4. */
  readonly version: number
  /** Begins a transaction with all settings pinned for it. Queries and scripts run only inside one. */
  begin(options?: TransactionOptions): Promise<void>
  /** Fails if the server rolled back instead. */
  commit(): Promise<void>
  rollback(): Promise<void>
  /** The rows, with the columns that `shape` names, converted to its types. */
  query<S extends Shape = Record<never, never>>(text: string, values?: unknown[], shape?: S): Promise<RowOf<S>[]>
  /** Several statements in one round trip, without parameters. */
  script(text: string): Promise<void>
  /** The error for an answer that no PostgreSQL server would give. */
  violation(reason: string): ConnectorError
  /** Closes gracefully, and rolls back what is open. Never throws. */
  close(): Promise<void>
  /** Drops the connection at once; the server rolls back what is open. */
  destroy(): void
}

/** From the first byte to the end of the login. */
const openTimeoutMs = 15_000
/** For BEGIN, which a server answers at once; a pooler may have to wait for a free connection first. */
const beginTimeoutMs = 15_000
/** A further reader that joins another's snapshot is optional, so its wait is short. */
const joinTimeoutMs = 5000
/** Added to the statement timeout, so that the server's own error can arrive first. */
const silenceMarginMs = 60_000

export async function openSession(target: Target, options: SessionOptions): Promise<Session> {
  try {
    return await connect(target, options)
  } catch (error) {
    options.signal.throwIfAborted()
    throw explainFailure(error, options.side, describeTarget(target))
  }
}

export function describeTarget(target: Target): string {
  return `PostgreSQL at ${target.host}:${target.port}`
}

async function connect(target: Target, options: SessionOptions): Promise<Session> {
  const { signal, side } = options
  const violation = (cause: Violation) => {
    const message = `The server at ${target.host}:${target.port} ${cause.verdict}: ${cause.message}`
    return new ConnectorError(side, message, { cause })
  }
  const silence = (seconds: number) =>
    new ConnectorError(side, `${describeTarget(target)} has not answered for ${seconds} seconds`, { transient: true })
  const socket = await options.egress.connect(target.host, target.port, { signal })
  // Without a listener, an error that arrives before the driver listens would end the process.
  socket.on('error', () => {})
  let late = false
  let stream: { destroy(): unknown } = socket
  const destroy = () => {
    stream.destroy()
    socket.destroy()
  }
  const timer = setTimeout(() => {
    late = true
    destroy()
  }, openTimeoutMs)
  signal.addEventListener('abort', destroy, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', destroy))
  try {
    const guarded = new GuardedSocket(await secure(socket, target), { violation, silence, silenceMs: null })
    stream = guarded
    const { client, version } = await login(guarded, target, options)
    return createSession({
      client,
      version,
      destroy,
      guarded,
      options,
      violation: (reason) => violation(new Violation(reason)),
    })
  } catch (error) {
    destroy()
    if (late) throw new ConnectorError(side, `${describeTarget(target)} ${lateAnswer}`, { transient: true })
    throw error instanceof Violation ? violation(error) : error
  } finally {
    clearTimeout(timer)
  }
}

const lateAnswer = `did not complete the login within ${openTimeoutMs / 1000} seconds`

function toSilence(timeoutSeconds: number): number | null {
  return timeoutSeconds > 0 ? timeoutSeconds * 1000 + silenceMarginMs : null
}

/** The socket as it is, or TLS on it. */
async function secure(socket: Socket, target: Target): Promise<Socket> {
  if (target.tls.mode === 'disable') return socket
  const encrypted = await startTls(socket, target.host, tlsOptions(target))
  if (encrypted === null && target.tls.mode !== 'prefer') throw new Error('The server does not support SSL connections')
  return encrypted ?? socket
}

async function login(
  guarded: GuardedSocket,
  target: Target,
  options: SessionOptions,
): Promise<{ client: pg.Client; version: number }> {
  const config: pg.ClientConfig & { scramMaxIterations: number } = {
    host: target.host,
    port: target.port,
    user: target.user,
    database: target.database,
    // Never null: the driver would look for a password file.
    password: target.password,
    // TLS was put on the socket before the driver got it.
    ssl: false,
    application_name: options.application.slice(0, 63),
    // The driver only calls socket methods that GuardedSocket implements.
    stream: () => guarded as unknown as Duplex,
    types: textParsers,
    scramMaxIterations: MAX_SCRAM_ROUNDS,
  }
  const client = new pg.Client(config)
  // Without a listener a connection that dies between two queries would end the process; the next query reports it.
  client.on('error', () => {})
  const version = watchVersion(client)
  await client.connect()
  return { client, version: version() }
}

/** The stream that the driver writes to. */
export function streamOf(client: pg.Client): GuardedSocket {
  return (client as unknown as { connection: { stream: GuardedSocket } }).connection.stream
}

function tlsOptions({ tls }: Target): ConnectionOptions {
  const trusted = { ...(tls.ca === undefined ? {} : { ca: tls.ca }) }
  const own = tls.cert === undefined ? {} : { cert: tls.cert, key: tls.key! }
  if (tls.mode === 'verify-full') return { ...trusted, ...own, rejectUnauthorized: true }
  if (tls.mode === 'verify-ca' || (tls.mode === 'require' && tls.ca !== undefined)) {
    return { ...trusted, ...own, rejectUnauthorized: true, checkServerIdentity: () => undefined }
  }
  return { ...own, rejectUnauthorized: false }
}

/** 180004 for 18.4, as the server reports it at startup; 0 if it reports nothing of the kind. */
function watchVersion(client: pg.Client): () => number {
  let version = 0
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter }
  connection.on(
    'parameterStatus',
    ({ parameterName, parameterValue }: { parameterName: string; parameterValue: string }) => {
      if (parameterName !== 'server_version') return
      const [, major = 0, minor = 0] = /^(\d{1,4})(?:\.(\d{1,4}))?/.exec(parameterValue) ?? []
      version = Number(major) * 10000 + Number(minor)
    },
  )
  return () => version
}

interface SessionParts extends Pick<Session, 'client' | 'version' | 'destroy' | 'violation'> {
  guarded: GuardedSocket
  options: SessionOptions
}

function createSession({ client, version, destroy, violation, guarded, options }: SessionParts): Session {
  const silenceMs = toSilence(options.statementTimeoutSeconds ?? 0)
  const pinned = pinSettingsSql(version, options)
  let inTransaction = false
  /** A server that breaks the rules between two queries is reported by the next one. */
  const report = (error: unknown): never => {
    throw guarded.failure ?? error
  }
  const requireTransaction = (): void => {
    if (!inTransaction) throw new ConnectorError('internal', 'A statement was about to run outside of a transaction')
  }
  return {
    client,
    version,
    violation,
    async begin(wanted = {}) {
      guarded.allowSilence(wanted.snapshot === undefined ? beginTimeoutMs : joinTimeoutMs)
      await client.query(`${beginSql(wanted, options.readOnly === true)}; ${pinned}`).catch(report)
      guarded.allowSilence(silenceMs)
      if (client.getTransactionStatus() !== 'T') throw violation('it did not begin a transaction when it was asked to')
      inTransaction = true
    },
    async commit() {
      requireTransaction()
      const { command } = await client.query('COMMIT').catch(report)
      inTransaction = false
      if (command !== 'COMMIT')
        throw new ConnectorError('internal', 'A transaction was rolled back instead of committed')
    },
    async rollback() {
      inTransaction = false
      await client.query('ROLLBACK').catch(report)
    },
    async query<S extends Shape>(text: string, values: unknown[] = [], shape?: S) {
      requireTransaction()
      const { rows } = await client.query<Record<string, string | null>>(text, values).catch(report)
      const read = readRows(rows, shape ?? ({} as S))
      if (Array.isArray(read)) return read
      throw violation(`it answered a query without a valid value for the column ${read.wrong}`)
    },
    async script(text) {
      requireTransaction()
      await client.query(text).catch(report)
    },
    async close() {
      const late = setTimeout(destroy, 2000)
      // A pooler drops a connection of its own whose client left in the middle of a transaction.
      if (inTransaction) await client.query('ROLLBACK').catch(() => {})
      await client.end().catch(() => {})
      clearTimeout(late)
    },
    destroy,
  }
}

function beginSql({ repeatable, snapshot }: TransactionOptions, readOnly: boolean): string {
  const level = repeatable || snapshot !== undefined ? 'REPEATABLE READ' : 'READ COMMITTED'
  const begin = `BEGIN ISOLATION LEVEL ${level}${readOnly ? ' READ ONLY' : ''}`
  return snapshot === undefined ? begin : `${begin}; SET TRANSACTION SNAPSHOT ${quoteText(snapshot)}`
}

/** The work in a transaction of its own. */
export async function inTransaction<T>(session: Session, work: () => Promise<T>): Promise<T> {
  await session.begin()
  try {
    const result = await work()
    await session.commit()
    return result
  } catch (error) {
    // What went wrong is told; a connection that is lost rolls back by itself.
    await session.rollback().catch(() => undefined)
    throw error
  }
}
