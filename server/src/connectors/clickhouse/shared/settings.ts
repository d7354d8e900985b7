/** Where the HTTP interface of a ClickHouse server is and how to log in: the settings that both connectors share. */
import { isIP } from 'node:net'
import { type Static, Type } from '../../../schema.ts'
import { ConnectorError, type Either, identity, secret } from '../../contract.ts'
import { type AddressDialect, canonicalHost, resolveAddress } from '../../server-address.ts'

const TLS_PORT = 8443
const PLAIN_PORT = 8123
const DEFAULT_USER = 'default'
const DEFAULT_DATABASE = 'default'

export const connectionSettings = {
  url: Type.Optional(
    secret(
      Type.String({
        description: `https://user:password@host:${TLS_PORT}/database, or http:// for a server without TLS. Replaces the separate settings below.`,
      }),
    ),
  ),
  host: Type.Optional(identity(Type.String({ minLength: 1, description: 'Host name or address of the server.' }))),
  port: Type.Optional(
    identity(
      Type.Integer({
        minimum: 1,
        maximum: 65535,
        description: `Port of the HTTP interface. Default ${TLS_PORT}, or ${PLAIN_PORT} where \`secure\` is false.`,
      }),
    ),
  ),
  database: Type.Optional(
    identity(Type.String({ minLength: 1, description: `Name of the database. Default: ${DEFAULT_DATABASE}.` })),
  ),
  user: Type.Optional(
    Type.String({ minLength: 1, description: `Name of the user to log in as. Default: ${DEFAULT_USER}.` }),
  ),
  password: Type.Optional(secret(Type.String({ description: 'Password of the user.' }))),
  secure: Type.Optional(
    Type.Boolean({
      description:
        'HTTPS, with a certificate that a public authority has signed. False: plain HTTP, password included. Default: true.',
    }),
  ),
}

export const eitherAddress: Either = [
  { title: 'Host and login', fields: ['host', 'port', 'database', 'user', 'password', 'secure'] },
  { title: 'One URL', fields: ['url'] },
]

const connection = Type.Object(connectionSettings)
export type ConnectionSettings = Static<typeof connection>

export interface Target {
  host: string
  port: number
  secure: boolean
  database: string
  user: string
  password: string
}

export function resolveTarget(settings: ConnectionSettings): Target {
  const { url, secure: wanted } = settings
  if (url !== undefined && wanted !== undefined)
    throw new ConnectorError(
      'config',
      'The clickhouse settings cannot be used: `secure` and `url` are both given; give only one of them.',
    )
  const secure = url === undefined ? (wanted ?? true) : !url.startsWith('http:')
  const dialect: AddressDialect = {
    connector: 'clickhouse',
    schemes: ['https', 'http'],
    port: portOfUrl(url) ?? (secure ? TLS_PORT : PLAIN_PORT),
    user: 'user',
  }
  const { tls: _, ...given } = { tls: undefined, ...settings }
  const address = resolveAddress(dialect, url === undefined ? { user: DEFAULT_USER, ...given } : given)
  const { host, port, database = DEFAULT_DATABASE, user, password } = address
  if (user.includes(':'))
    throw new ConnectorError('config', 'The clickhouse settings cannot be used: `user` may not contain a colon.')
  return { host, port, secure, database, user, password }
}

/** A URL drops the port that is usual for its scheme, and for ClickHouse another one is. */
function portOfUrl(url: string | undefined): number | undefined {
  const port = /^https?:\/\/[^/?#]*:(443|80)(?:[/?#]|$)/.exec(url ?? '')?.[1]
  return port === undefined ? undefined : Number(port)
}

export function originOf({ host, port, secure }: Target): string {
  return `${secure ? 'https' : 'http'}://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
}

/** For messages. */
export function describeTarget({ host, port }: Target): string {
  return `ClickHouse at ${host}:${port}`
}

/** The same place, however it was written: as a `url` or in parts, with or without what is the default. */
export function canonicalPlace(settings: ConnectionSettings): { host: string; port: number; database: string } {
  const { host, port, database } = resolveTarget(settings)
  return { host: canonicalHost(host), port, database }
}
