/**
 * A connection to PostgreSQL over a socket that `egress` has vetted. Every setting that affects how values are written
 * is pinned, and timeouts make the server drop a session whose client is gone: keep-alive for a dead machine,
 * idle-in-transaction for a stopped process, the connection check for one that left in the middle of a query.
 */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import type { Egress } from '../../../egress/policy.ts'
import { ConnectorError } from '../../contract.ts'
import { explainFailure, type Side } from './errors.ts'
import type { Target } from './settings.ts'
import { type RowOf, readRows, type Shape, textParsers } from './values.ts'
import { MOST_SCRAM_ROUNDS, Violation } from './wire/frames.ts'
import { GuardedSocket } from './wire/guarded-socket.ts'
import { startTls } from './wire/tls.ts'

export interface SessionOptions {
  egress: Egress
  signal: AbortSignal
  side: Side
  /** Shown in pg_stat_activity; a later attempt uses it to find and end an earlier one. */
  application: string
  readOnly?: boolean
  /** 0: none. */
  statementTimeoutSeconds?: number
  /** A transaction that only holds a snapshot may wait as long as its reader needs. 0: none. Default 60. */
  idleInTransactionSeconds?: number
  /** Names in a user's query are resolved by the role's search path; ours are always qualified. */
  keepSearchPath?: boolean
}

export interface Session {
  readonly client: pg.Client
  /** 180004 for 18.4. */
  readonly version: number
  /** The rows, with the columns that `shape` names, converted to its types. */
  query<S extends Shape = Record<never, never>>(text: string, values?: unknown[], shape?: S): Promise<RowOf<S>[]>
  /** Several statements in one round trip, without parameters. */
  script(text: string): Promise<void>
  /** The error for an answer that no PostgreSQL server would give. */
  violation(reason: string): ConnectorError
  /** Closes gracefully. Never throws. */
  close(): Promise<void>
  /** Drops the connection at once; the server rolls back what is open. */
  destroy(): void
}

/** From the first byte to the pinned settings. */
const openTimeoutMs = 15_000
/** Added to the statement timeout, so that the server's own error can arrive first. */
const silenceMarginMs = 60_000
const defaultIdleSeconds = 60

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
    guarded.allowSilence(toSilence(options.statementTimeoutSeconds ?? 0))
    return createSession({ client, version, destroy, guarded, violation: (reason) => violation(new Violation(reason)) })
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
    scramMaxIterations: MOST_SCRAM_ROUNDS,
  }
  const client = new pg.Client(config)
  // Without a listener a connection that dies between two queries would end the process; the next query reports it.
  client.on('error', () => {})
  const version = watchVersion(client)
  await client.connect()
  await pinSettings(client, version(), options)
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

async function pinSettings(client: pg.Client, version: number, options: SessionOptions): Promise<void> {
  const settings: Record<string, string> = {
    DateStyle: 'ISO, YMD',
    IntervalStyle: 'postgres',
    TimeZone: 'UTC',
    bytea_output: 'hex',
    client_encoding: 'UTF8',
    extra_float_digits: '3',
    standard_conforming_strings: 'on',
    statement_timeout: `${options.statementTimeoutSeconds ?? 0}s`,
    lock_timeout: '0',
    // They are not read, and a trigger may raise one for every row.
    client_min_messages: 'error',
    idle_in_transaction_session_timeout: `${options.idleInTransactionSeconds ?? defaultIdleSeconds}s`,
    tcp_keepalives_idle: '30',
    tcp_keepalives_interval: '10',
    tcp_keepalives_count: '3',
  }
  if (version >= 140000) settings.client_connection_check_interval = '5s'
  if (options.readOnly) settings.default_transaction_read_only = 'on'
  if (!options.keepSearchPath) settings.search_path = 'pg_catalog'
  const calls = Object.entries(settings).map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', false)`)
  await client.query(`SELECT ${calls.join(', ')}`)
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
}

function createSession({ client, version, destroy, violation, guarded }: SessionParts): Session {
  /** A server that breaks the rules between two queries is reported by the next one. */
  const report = (error: unknown): never => {
    throw guarded.failure ?? error
  }
  return {
    client,
    version,
    violation,
    async query<S extends Shape>(text: string, values: unknown[] = [], shape?: S) {
      const { rows } = await client.query<Record<string, string | null>>(text, values).catch(report)
      const read = readRows(rows, shape ?? ({} as S))
      if (Array.isArray(read)) return read
      throw violation(`it answered a query without a valid value for the column ${read.wrong}`)
    },
    async script(text) {
      await client.query(text).catch(report)
    },
    async close() {
      const late = setTimeout(destroy, 2000)
      await client.end().catch(() => {})
      clearTimeout(late)
    },
    destroy,
  }
}
