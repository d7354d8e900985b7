/**
 * A connection to PostgreSQL over a socket that `egress` has vetted, with every setting that changes how values are
 * written pinned, and with the time-outs that make the server drop a session whose owner is gone: keep-alive for a dead
 * machine, idle-in-transaction for a stopped process, the connection check for one that left in the middle of a query.
 */
import type { TLSSocket } from 'node:tls'
import pg from 'pg'
import type { Egress } from '../../../egress/policy.ts'
import { explainFailure, type Side } from './errors.ts'
import type { Target } from './settings.ts'

export interface SessionOptions {
  egress: Egress
  signal: AbortSignal
  side: Side
  /** Shown in pg_stat_activity; a later attempt finds and ends an earlier one by it. */
  application: string
  readOnly?: boolean
  /** 0: none. */
  statementTimeoutSeconds?: number
  /** A transaction that only holds a snapshot may wait for as long as its reader needs. 0: none. Default 60. */
  idleInTransactionSeconds?: number
  /** Names in a query of the user's own are found as the role finds them; ours are always qualified. */
  keepSearchPath?: boolean
}

export interface Session {
  readonly client: pg.Client
  /** 180004 for 18.4. */
  readonly version: number
  query<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>
  /** Several statements in one round trip, without parameters. */
  script(text: string): Promise<void>
  /** Ends politely. Never throws. */
  close(): Promise<void>
  /** Cuts the line at once; the server rolls back what is open. */
  destroy(): void
}

const handshakeTimeoutMs = 15_000
const defaultIdleSeconds = 60

export async function openSession(target: Target, options: SessionOptions): Promise<Session> {
  const where = describeTarget(target)
  try {
    return await connect(target, options, target.tls.mode !== 'disable')
  } catch (error) {
    options.signal.throwIfAborted()
    if (target.tls.mode === 'prefer' && /does not support SSL/.test((error as Error).message)) {
      try {
        return await connect(target, options, false)
      } catch (second) {
        throw explainFailure(second, options.side, where)
      }
    }
    throw explainFailure(error, options.side, where)
  }
}

export function describeTarget(target: Target): string {
  return `PostgreSQL at ${target.host}:${target.port}`
}

async function connect(target: Target, options: SessionOptions, encrypted: boolean): Promise<Session> {
  const { signal } = options
  const socket = await options.egress.connect(target.host, target.port, { signal })
  const client = new pg.Client({
    host: target.host,
    port: target.port,
    user: target.user,
    database: target.database,
    // Never null: the driver would look for a password file.
    password: target.password,
    ssl: encrypted ? tlsOptions(target) : false,
    application_name: options.application.slice(0, 63),
    connectionTimeoutMillis: handshakeTimeoutMs,
    stream: () => socket,
  })
  const destroy = () => {
    streamOf(client).destroy()
    socket.destroy()
  }
  // Without a listener a connection that dies between two queries would end the process; the next query reports it.
  client.on('error', () => {})
  signal.addEventListener('abort', destroy, { once: true })
  client.once('end', () => signal.removeEventListener('abort', destroy))
  const version = watchVersion(client)
  try {
    await client.connect()
    await pinSettings(client, version(), options)
    return createSession(client, version(), destroy)
  } catch (error) {
    destroy()
    signal.removeEventListener('abort', destroy)
    throw error
  }
}

/** The socket, or the TLS stream on it. */
export function streamOf(client: pg.Client): TLSSocket {
  return (client as unknown as { connection: { stream: TLSSocket } }).connection.stream
}

function tlsOptions({ tls }: Target) {
  const trusted = { ...(tls.ca === undefined ? {} : { ca: tls.ca }) }
  const own = tls.cert === undefined ? {} : { cert: tls.cert, key: tls.key! }
  if (tls.mode === 'verify-full') return { ...trusted, ...own, rejectUnauthorized: true }
  if (tls.mode === 'require' && tls.ca !== undefined) {
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

/** 180004 for 18.4, from what the server says of itself at the start; 0 where it says nothing of the kind. */
function watchVersion(client: pg.Client): () => number {
  let version = 0
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter }
  connection.on(
    'parameterStatus',
    ({ parameterName, parameterValue }: { parameterName: string; parameterValue: string }) => {
      if (parameterName !== 'server_version') return
      const [major = 0, minor = 0] = parameterValue.split(/[. ]/).map((part) => Number.parseInt(part, 10) || 0)
      version = major * 10000 + minor
    },
  )
  return () => version
}

function createSession(client: pg.Client, version: number, destroy: () => void): Session {
  return {
    client,
    version,
    async query<Row>(text: string, values?: unknown[]) {
      const result = await (values ? client.query(text, values) : client.query(text))
      return result.rows as Row[]
    },
    async script(text) {
      await client.query(text)
    },
    async close() {
      const late = setTimeout(destroy, 2000)
      await client.end().catch(() => {})
      clearTimeout(late)
    },
    destroy,
  }
}
