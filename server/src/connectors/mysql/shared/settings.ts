/**
 * Where a MySQL or MariaDB server is and how to log in: the settings both connectors share, resolved to one `Target`. An
 * address is attacker-controlled, so everything that could name a folder, a file or a second host is refused, and TLS
 * material is given as PEM text.
 */
import { isIP } from 'node:net'
import { type Static, Type } from 'typebox'
import { ConnectorError, identity, secret } from '../../contract.ts'

/** The words of the postgres connector; MySQL's own are DISABLED, PREFERRED, REQUIRED, VERIFY_CA and VERIFY_IDENTITY. */
const tlsModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type TlsMode = (typeof tlsModes)[number]

/** Not `default`s in the schema: filled in, they would contradict a `url` that says otherwise. */
const DEFAULT_PORT = 3306
const DEFAULT_TLS_MODE: TlsMode = 'prefer'

/** For each of them. The bundle of all regions of a cloud provider has 170 KB. */
const MAX_PEM = 256 * 1024

const tls = Type.Object(
  {
    mode: Type.Optional(
      Type.Union(
        [
          Type.Literal('disable'),
          Type.Literal('prefer'),
          Type.Literal('require'),
          Type.Literal('verify-ca'),
          Type.Literal('verify-full'),
        ],
        {
          description: `disable, prefer (TLS where the server offers it), require (TLS, and a chain to \`ca\` where it is given), verify-ca (TLS and a chain to \`ca\`, or to the public authorities), verify-full (chain and host name). Default ${DEFAULT_TLS_MODE}.`,
        },
      ),
    ),
    ca: Type.Optional(
      Type.String({
        maxLength: MAX_PEM,
        description: 'PEM text of the authorities to trust instead of the public ones. At most 256 KB.',
      }),
    ),
    cert: Type.Optional(Type.String({ maxLength: MAX_PEM, description: 'PEM text of the client certificate.' })),
    key: Type.Optional(secret(Type.String({ maxLength: MAX_PEM, description: 'PEM text of the client key.' }))),
  },
  { additionalProperties: false, description: 'TLS. Certificates and keys are PEM text, never the name of a file.' },
)

export const connectionSettings = {
  url: Type.Optional(
    secret(
      Type.String({
        description: 'mysql://user:password@host:3306/database?sslmode=require. Replaces the separate settings below.',
      }),
    ),
  ),
  host: Type.Optional(identity(Type.String({ minLength: 1, description: 'Host name or address of the server.' }))),
  port: Type.Optional(identity(Type.Integer({ minimum: 1, maximum: 65535, description: `Default ${DEFAULT_PORT}.` }))),
  database: Type.Optional(
    identity(Type.String({ minLength: 1, description: 'Name of the database. A source may leave it out.' })),
  ),
  user: Type.Optional(Type.String({ minLength: 1, description: 'Name of the user to log in as.' })),
  password: Type.Optional(secret(Type.String({ description: 'Password of the user.' }))),
  tls: Type.Optional(tls),
  server_public_key: Type.Optional(
    Type.String({
      maxLength: MAX_PEM,
      description:
        'PEM text of the RSA key of a MySQL server without TLS, to encrypt the password with (caching_sha2_password). It is never asked of the server.',
    }),
  ),
}

const connection = Type.Object(connectionSettings)
export type ConnectionSettings = Static<typeof connection>

export interface Target {
  host: string
  port: number
  database?: string
  user: string
  password: string
  serverPublicKey?: string
  tls: { mode: TlsMode; ca?: string; cert?: string; key?: string }
}

type Parts = Omit<ConnectionSettings, 'url'>

export function resolveTarget(settings: ConnectionSettings): Target {
  const parts = settings.url === undefined ? settings : readUrl(settings.url, settings)
  const host = parts.host
  if (host === undefined) throw refuse('`host` is missing: give `url`, or `host`, `database`, `user` and `password`')
  if (parts.user === undefined) throw refuse('`user` is missing: give the name of the user to log in as')
  checkHost(host)
  for (const name of ['ca', 'cert', 'key'] as const) checkPem(`tls.${name}`, parts.tls?.[name])
  checkPem('server_public_key', settings.server_public_key)
  const { ca, cert, key, mode } = parts.tls ?? {}
  if ((cert === undefined) !== (key === undefined))
    throw refuse('`tls.cert` and `tls.key` belong together: give both or neither')
  return {
    host,
    port: parts.port ?? DEFAULT_PORT,
    ...(parts.database === undefined ? {} : { database: parts.database }),
    user: parts.user,
    password: parts.password ?? '',
    ...(settings.server_public_key === undefined ? {} : { serverPublicKey: settings.server_public_key }),
    tls: {
      mode: mode ?? DEFAULT_TLS_MODE,
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
    },
  }
}

/** The same place, however it was written: as an `url` or in parts, with or without what is the default. */
export function canonicalPlace(settings: ConnectionSettings): {
  host: string
  port: number
  database: string | null
} {
  const { host, port, database } = resolveTarget(settings)
  return { host: host.toLowerCase().replace(/\.$/, ''), port, database: database ?? null }
}

function refuse(message: string): ConnectorError {
  return new ConnectorError('config', `The mysql settings cannot be used: ${message}.`)
}

function checkPem(name: string, text: string | undefined): void {
  if (text === undefined || text.includes('-----BEGIN ')) return
  throw refuse(`\`${name}\` must be PEM text that begins with -----BEGIN, not the name of a file`)
}

/** Everything but one host name or address could name a socket, a folder or a second server. */
function checkHost(host: string): void {
  if (isIP(host) !== 0) return
  if (!/^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9.])?$/.test(host)) {
    throw refuse('`host` must be one host name or address; unix sockets, folders and lists of hosts are not allowed')
  }
}

function readUrl(text: string, settings: ConnectionSettings): Parts {
  for (const name of ['host', 'port', 'database', 'user', 'password'] as const) {
    if (settings[name] !== undefined) throw refuse(`\`${name}\` and \`url\` are both given; give only one of them`)
  }
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw refuse(
      '`url` is not a valid URL; write mysql://user:password@host:3306/database, with special characters percent-encoded',
    )
  }
  if (url.protocol !== 'mysql:' && url.protocol !== 'mariadb:')
    throw refuse('`url` must begin with mysql:// or mariadb://')
  if (url.hash !== '') throw refuse('`url` has a # in it; percent-encode it as %23')
  const parts: Parts = { tls: { ...settings.tls } }
  if (url.hostname !== '') parts.host = decode(url.hostname).replace(/^\[(.*)\]$/, '$1')
  if (url.port !== '') parts.port = Number(url.port)
  if (url.pathname.length > 1) parts.database = decode(url.pathname.slice(1))
  if (url.username !== '') parts.user = decode(url.username)
  if (url.password !== '') parts.password = decode(url.password)
  for (const [name, value] of url.searchParams) readParameter(parts, name, value)
  return parts
}

function readParameter(parts: Parts, name: string, value: string): void {
  if (name === 'application_name' || name === 'connect_timeout') return
  if (name !== 'sslmode') {
    throw refuse(
      `the parameter \`${name}\` in \`url\` is not allowed; only sslmode is, and certificates belong in \`tls\` as PEM text`,
    )
  }
  if (!tlsModes.includes(value as TlsMode)) throw refuse(`sslmode in \`url\` must be one of ${tlsModes.join(', ')}`)
  parts.tls = { mode: value as TlsMode, ...parts.tls }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw refuse('`url` has a % that is not an escape; write it as %25')
  }
}
