/**
 * DATABASE_URL as connection settings. `sslmode` has libpq's meaning: the driver would treat `require` as
 * `verify-full`, and supports neither `prefer` nor `allow`. Without sslmode the driver parses the URL itself.
 */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { OperatorError } from '../errors.ts'
import type { ConnectionSettings } from './database.ts'

export interface DatabaseAddress {
  connection: ConnectionSettings
  /** The second choice of `prefer` and `allow`, for a server that refuses the first. */
  otherwise?: ConnectionSettings
}

const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
/** Only the driver has this mode, and its meaning is clear. */
const NO_VERIFY = 'no-verify'

/** Parameters handled here that the driver must not interpret again. */
const TLS_PARAMETERS = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation']

export function readDatabaseUrl(address: string): DatabaseAddress {
  const url = new URL(address)
  const parameters = Object.fromEntries(TLS_PARAMETERS.map((name) => [name, url.searchParams.get(name)]))
  const mode = parameters.sslmode
  if (!mode) return { connection: { connectionString: address } }
  for (const name of TLS_PARAMETERS) url.searchParams.delete(name)
  const plain = { connectionString: url.href, ssl: false }
  const encrypted = (options: ConnectionOptions) => ({
    connectionString: url.href,
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

const UNVERIFIED: ConnectionOptions = { rejectUnauthorized: false }
const CHAIN_VERIFIED: ConnectionOptions = { rejectUnauthorized: true, checkServerIdentity: () => undefined }

function readFiles({ sslrootcert, sslcert, sslkey }: Record<string, string | null>): ConnectionOptions {
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

async function isAccepted(connection: ConnectionSettings): Promise<boolean> {
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
