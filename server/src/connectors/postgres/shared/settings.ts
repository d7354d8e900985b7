/**
 * Where a PostgreSQL server is and how to log in: the settings both connectors share, resolved to one `Target`. An
 * address is attacker-controlled, so everything that could name a folder, a file or a second host is refused, and TLS
 * material is given as PEM text. The `url` is parsed here and never reaches a driver.
 */
import { isIP } from 'node:net'
import { type Static, Type } from 'typebox'
import { ConnectorError, identity, secret } from '../../contract.ts'

/** As in libpq, without `allow`, which prefers not to encrypt. */
const tlsModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type TlsMode = (typeof tlsModes)[number]

/** Not `default`s in the schema: filled in, they would contradict a `url` that says otherwise. */
const DEFAULT_PORT = 5432
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
        description:
          'postgres://user:password@host:5432/database?sslmode=require. Replaces the separate settings below.',
      }),
    ),
  ),
  host: Type.Optional(identity(Type.String({ minLength: 1, description: 'Host name or address of the server.' }))),
  port: Type.Optional(identity(Type.Integer({ minimum: 1, maximum: 65535, description: `Default ${DEFAULT_PORT}.` }))),
  database: Type.Optional(
    identity(Type.String({ minLength: 1, description: 'Name of the database. Default: the user name.' })),
  ),
  user: Type.Optional(Type.String({ minLength: 1, description: 'Name of the role to log in as.' })),
  password: Type.Optional(secret(Type.String({ description: 'Password of the role.' }))),
  tls: Type.Optional(tls),
}

const connection = Type.Object(connectionSettings)
export type ConnectionSettings = Static<typeof connection>

export interface Target {
  host: string
  port: number
  database: string
  user: string
  password: string
  tls: { mode: TlsMode; ca?: string; cert?: string; key?: string }
}

type Parts = Omit<ConnectionSettings, 'url'>

export function resolveTarget(settings: ConnectionSettings): Target {
  const parts = settings.url === undefined ? settings : readUrl(settings.url, settings)
  const host = parts.host
  if (host === undefined) throw refuse('`host` is missing: give `url`, or `host`, `database`, `user` and `password`')
  if (parts.user === undefined) throw refuse('`user` is missing: give the name of the role to log in as')
  checkHost(host)
  for (const name of ['ca', 'cert', 'key'] as const) {
    const text = parts.tls?.[name]
    if (text !== undefined && !text.includes('-----BEGIN ')) {
      throw refuse(`\`tls.${name}\` must be PEM text that begins with -----BEGIN, not the name of a file`)
    }
  }
  const { ca, cert, key, mode } = parts.tls ?? {}
  if ((cert === undefined) !== (key === undefined))
    throw refuse('`tls.cert` and `tls.key` belong together: give both or neither')
  return {
    host,
    port: parts.port ?? DEFAULT_PORT,
    database: parts.database ?? parts.user,
    user: parts.user,
    password: parts.password ?? '',
    tls: {
      mode: mode ?? DEFAULT_TLS_MODE,
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
    },
  }
}

/** The same place, however it was written: as an `url` or in parts, with or without what is the default. */
export function canonicalPlace(settings: ConnectionSettings): { host: string; port: number; database: string } {
  const { host, port, database } = resolveTarget(settings)
  return { host: host.toLowerCase().replace(/\.$/, ''), port, database }
}

function refuse(message: string): ConnectorError {
  return new ConnectorError('config', `The postgres settings cannot be used: ${message}.`)
}

/** PostgreSQL drivers treat a host that starts with a slash or an at sign as a unix socket. */
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
      '`url` is not a valid URL; write postgres://user:password@host:5432/database, with special characters percent-encoded',
    )
  }
  if (url.protocol !== 'postgres:' && url.protocol !== 'postgresql:')
    throw refuse('`url` must begin with postgres:// or postgresql://')
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
