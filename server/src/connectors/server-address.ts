/**
 * The address of a database server and how to log in, as the settings of its connectors give it: in parts, or as a `url`,
 * which is parsed here and never reaches a driver. An address is attacker-controlled, so everything that could name a
 * folder, a file or a second host is refused, and TLS material is given as PEM text.
 */
import { isIP } from 'node:net'
import { type Static, Type } from '../schema.ts'
import { ConnectorError, secret } from './contract.ts'

/** As in libpq, without `allow`, which prefers not to encrypt. */
const tlsModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type TlsMode = (typeof tlsModes)[number]

/** Not a `default` in the schema: filled in, it would contradict a `url` that says otherwise. */
const DEFAULT_TLS_MODE: TlsMode = 'prefer'

/** A certificate or key in a setting. The bundle of all regions of a cloud provider has 170 KB. */
export const pem = { maxLength: 256 * 1024, contentMediaType: 'application/x-pem-file' }

export const tlsSettings = Type.Object(
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
        ...pem,
        description: 'PEM text of the authorities to trust instead of the public ones. At most 256 KB.',
      }),
    ),
    cert: Type.Optional(Type.String({ ...pem, description: 'PEM text of the client certificate.' })),
    key: Type.Optional(secret(Type.String({ ...pem, description: 'PEM text of the client key.' }))),
  },
  { additionalProperties: false, description: 'TLS. Certificates and keys are PEM text, never the name of a file.' },
)

/** What differs between systems. */
export interface AddressDialect {
  connector: string
  /** Of a `url`; the first one is used in examples. */
  schemes: readonly [string, string]
  port: number
  /** What the system calls those who log in. */
  user: string
}

/** The settings that this file reads. */
interface AddressSettings {
  url?: string
  host?: string
  port?: number
  database?: string
  user?: string
  password?: string
  tls?: Static<typeof tlsSettings>
}

type Parts = Omit<AddressSettings, 'url'>

export interface ServerAddress {
  host: string
  port: number
  database?: string
  user: string
  password: string
  tls: { mode: TlsMode; ca?: string; cert?: string; key?: string }
}

export function resolveAddress(dialect: AddressDialect, settings: AddressSettings): ServerAddress {
  const {
    host,
    port,
    database,
    user,
    password,
    tls = {},
  } = settings.url === undefined ? settings : readUrl(dialect, settings.url, settings)
  if (host === undefined)
    throw refuse(dialect, '`host` is missing: give `url`, or `host`, `database`, `user` and `password`')
  if (user === undefined)
    throw refuse(dialect, `\`user\` is missing: give the name of the ${dialect.user} to log in as`)
  checkHost(dialect, host)
  for (const name of ['ca', 'cert', 'key'] as const) checkPem(dialect, `tls.${name}`, tls[name])
  const { ca, cert, key, mode } = tls
  if ((cert === undefined) !== (key === undefined))
    throw refuse(dialect, '`tls.cert` and `tls.key` belong together: give both or neither')
  return {
    host,
    port: port ?? dialect.port,
    ...(database === undefined ? {} : { database }),
    user,
    password: password ?? '',
    tls: {
      mode: mode ?? DEFAULT_TLS_MODE,
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
    },
  }
}

/** One spelling of a host name. */
export const canonicalHost = (host: string): string => host.toLowerCase().replace(/\.$/, '')

const refuse = ({ connector }: AddressDialect, message: string): ConnectorError =>
  new ConnectorError('config', `The ${connector} settings cannot be used: ${message}.`)

export function checkPem(dialect: AddressDialect, name: string, text: string | undefined): void {
  if (text === undefined || text.includes('-----BEGIN ')) return
  throw refuse(dialect, `\`${name}\` must be PEM text that begins with -----BEGIN, not the name of a file`)
}

/** Everything but one host name or address could name a socket, a folder or a second server. */
function checkHost(dialect: AddressDialect, host: string): void {
  if (isIP(host) !== 0) return
  if (!/^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9.])?$/.test(host))
    throw refuse(
      dialect,
      '`host` must be one host name or address; unix sockets, folders and lists of hosts are not allowed',
    )
}

function readUrl(dialect: AddressDialect, text: string, settings: AddressSettings): Parts {
  for (const name of ['host', 'port', 'database', 'user', 'password'] as const)
    if (settings[name] !== undefined)
      throw refuse(dialect, `\`${name}\` and \`url\` are both given; give only one of them`)
  const { schemes, port } = dialect
  if (!URL.canParse(text))
    throw refuse(
      dialect,
      `\`url\` is not a valid URL; write ${schemes[0]}://user:password@host:${port}/database, with special characters percent-encoded`,
    )
  const url = new URL(text)
  if (!schemes.some((scheme) => url.protocol === `${scheme}:`))
    throw refuse(dialect, `\`url\` must begin with ${schemes[0]}:// or ${schemes[1]}://`)
  if (url.hash !== '') throw refuse(dialect, '`url` has a # in it; percent-encode it as %23')
  const parts: Parts = { tls: { ...settings.tls } }
  const decode = (part: string): string => decodePart(dialect, part)
  if (url.hostname !== '') parts.host = decode(url.hostname).replace(/^\[(.*)\]$/, '$1')
  if (url.port !== '') parts.port = Number(url.port)
  if (url.pathname.length > 1) parts.database = decode(url.pathname.slice(1))
  if (url.username !== '') parts.user = decode(url.username)
  if (url.password !== '') parts.password = decode(url.password)
  for (const [name, value] of url.searchParams) readParameter(dialect, parts, name, value)
  return parts
}

function readParameter(dialect: AddressDialect, parts: Parts, name: string, value: string): void {
  if (name === 'application_name' || name === 'connect_timeout') return
  if (name !== 'sslmode')
    throw refuse(
      dialect,
      `the parameter \`${name}\` in \`url\` is not allowed; only sslmode is, and certificates belong in \`tls\` as PEM text`,
    )
  if (!tlsModes.includes(value as TlsMode))
    throw refuse(dialect, `sslmode in \`url\` must be one of ${tlsModes.join(', ')}`)
  parts.tls = { mode: value as TlsMode, ...parts.tls }
}

function decodePart(dialect: AddressDialect, text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw refuse(dialect, '`url` has a % that is not an escape; write it as %25')
  }
}
