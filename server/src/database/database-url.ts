/**
 * DATABASE_URL as connection settings: of one server, or of several (servers.ts). `sslmode` has libpq's meaning: the driver would treat `require` as
 * `verify-full`, and supports neither `prefer` nor `allow`. Without sslmode the driver parses the URL itself.
 */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { OperatorError } from '../errors.ts'
import type { ConnectionSettings } from './database.ts'
import { splitServers } from './server-list.ts'
import { readOptions } from './session-settings.ts'

export interface DatabaseAddress {
  connection: ConnectionSettings
  /** The second choice of `prefer` and `allow`, for a server that refuses the first. */
  otherwise?: ConnectionSettings
}

const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
/** Only the driver has this mode, and its meaning is clear. */
const NO_VERIFY = 'no-verify'

/** Parameters handled here that the driver must not interpret again. */
const TLS_PARAMETERS = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation'] as const

export function readDatabaseUrl(address: string): DatabaseAddress {
  const servers = splitServers(address)
  if (servers === null) throw new OperatorError('DATABASE_URL is not a valid address.')
  const { parameters, session } = readParameters(servers[0]!)
  const strings = servers.map((server) => withoutHandled(server, parameters.sslmode !== null, session.rest))
  const common: ConnectionSettings = {
    connectionString: strings[0]!,
    ...(strings.length > 1 && { connectionStrings: strings }),
    ...(Object.keys(session.settings).length > 0 && { session: session.settings }),
  }
  const mode = parameters.sslmode
  if (!mode) return { connection: common }
  const plain = { ...common, ssl: false }
  const encrypted = (options: ConnectionOptions) => ({
    ...common,
    ssl: { ...readFiles(parameters), ...options },
    ...(parameters.sslnegotiation === 'direct' && { sslnegotiation: 'direct' as const }),
  })
  // As in libpq: a root certificate makes `require` verify the chain, and the system's certificates are only used by
  // `verify-full`.
  const { sslrootcert } = parameters
  switch (sslrootcert === 'system' ? 'verify-full' : mode) {
    case 'disable':
      return { connection: plain }
    case 'allow':
      return { connection: plain, otherwise: encrypted(UNVERIFIED) }
    case 'prefer':
      return { connection: encrypted(UNVERIFIED), otherwise: plain }
    case 'require':
      return { connection: encrypted(sslrootcert ? CHAIN_VERIFIED : UNVERIFIED) }
    case 'verify-ca':
      return { connection: encrypted(CHAIN_VERIFIED) }
    case 'verify-full':
      return { connection: encrypted({ rejectUnauthorized: true }) }
    case NO_VERIFY:
      return { connection: encrypted(UNVERIFIED) }
    default:
      throw new OperatorError(`DATABASE_URL: sslmode must be one of ${MODES.join(', ')}, not ${JSON.stringify(mode)}.`)
  }
}

/** The server must be writable in any case, so these two mean the same here. */
const TARGETS = ['any', 'read-write', 'primary']

function readParameters(server: string) {
  const { searchParams } = new URL(server)
  const target = searchParams.get('target_session_attrs') ?? 'any'
  if (!TARGETS.includes(target))
    throw new OperatorError(
      `DATABASE_URL: target_session_attrs must be read-write or primary, because Sluice writes, not ${JSON.stringify(target)}.`,
    )
  return {
    parameters: Object.fromEntries(TLS_PARAMETERS.map((name) => [name, searchParams.get(name)])) as Parameters,
    session: readOptions(searchParams.get('options') ?? ''),
  }
}

type Parameters = Record<(typeof TLS_PARAMETERS)[number], string | null>

/** Unchanged if nothing in it is ours to handle. */
function withoutHandled(server: string, tls: boolean, options: string): string {
  const url = new URL(server)
  const handled = ['target_session_attrs', 'options', ...(tls ? TLS_PARAMETERS : [])]
  if (!handled.some((name) => url.searchParams.has(name))) return server
  for (const name of handled) url.searchParams.delete(name)
  if (options !== '') url.searchParams.set('options', options)
  return url.href
}

const UNVERIFIED: ConnectionOptions = { rejectUnauthorized: false }
const CHAIN_VERIFIED: ConnectionOptions = { rejectUnauthorized: true, checkServerIdentity: () => undefined }

function readFiles({ sslrootcert, sslcert, sslkey }: Parameters): ConnectionOptions {
  const read = (name: string, file: string) => {
    try {
      return readFileSync(file, 'utf8')
    } catch (error) {
      throw new OperatorError(`DATABASE_URL: ${name} cannot be read: ${(error as Error).message}.`)
    }
  }
  return {
    ...(sslrootcert && sslrootcert !== 'system' && { ca: read('sslrootcert', sslrootcert) }),
    ...(sslcert && { cert: read('sslcert', sslcert) }),
    ...(sslkey && { key: read('sslkey', sslkey) }),
  }
}

/**
 * Tries which of the two the server accepts, once per process. If it accepts neither, the error is that of the first.
 */
export async function chooseConnection({ connection, otherwise }: DatabaseAddress): Promise<ConnectionSettings> {
  if (otherwise === undefined || (await isAccepted(connection))) return connection
  return (await isAccepted(otherwise)) ? otherwise : connection
}

const TRY_MS = 10_000

/** Whether any server accepts it. */
async function isAccepted({ connectionStrings, ...connection }: ConnectionSettings): Promise<boolean> {
  if (connectionStrings === undefined) return accepts(connection)
  const answers = connectionStrings.map((connectionString) => accepts({ ...connection, connectionString }))
  return (await Promise.all(answers)).some(Boolean)
}

async function accepts(connection: ConnectionSettings): Promise<boolean> {
  const client = new pg.Client({ ...connection, connectionTimeoutMillis: TRY_MS })
  client.on('error', () => {})
  try {
    await client.connect()
    return true
  } catch {
    return false
  } finally {
    await client.end().catch(() => {})
  }
}
