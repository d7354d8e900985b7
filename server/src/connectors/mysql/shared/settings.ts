/** Where a MySQL or MariaDB server is and how to log in: the settings both connectors share, resolved to one `Target`. */
import { type Static, Type } from '../../../schema.ts'
import { type Either, identity, secret } from '../../contract.ts'
import {
  type AddressDialect,
  canonicalHost,
  checkPem,
  pem,
  resolveAddress,
  type ServerAddress,
  tlsSettings,
} from '../../server-address.ts'

const dialect: AddressDialect = { connector: 'mysql', schemes: ['mysql', 'mariadb'], port: 3306, user: 'user' }

export const connectionSettings = {
  url: Type.Optional(
    secret(
      Type.String({
        description: 'mysql://user:password@host:3306/database?sslmode=require. Replaces the separate settings below.',
      }),
    ),
  ),
  host: Type.Optional(identity(Type.String({ minLength: 1, description: 'Host name or address of the server.' }))),
  port: Type.Optional(identity(Type.Integer({ minimum: 1, maximum: 65535, description: `Default ${dialect.port}.` }))),
  database: Type.Optional(
    identity(Type.String({ minLength: 1, description: 'Name of the database. A source may leave it out.' })),
  ),
  user: Type.Optional(Type.String({ minLength: 1, description: 'Name of the user to log in as.' })),
  password: Type.Optional(secret(Type.String({ description: 'Password of the user.' }))),
  tls: Type.Optional(tlsSettings),
  server_public_key: Type.Optional(
    Type.String({
      ...pem,
      description:
        'PEM text of the RSA key of a MySQL server without TLS, to encrypt the password with (caching_sha2_password). It is never asked of the server.',
    }),
  ),
}

export const eitherAddress: Either = [
  { title: 'Host and login', fields: ['host', 'port', 'database', 'user', 'password'] },
  { title: 'One URL', fields: ['url'] },
]

const connection = Type.Object(connectionSettings)
export type ConnectionSettings = Static<typeof connection>

export interface Target extends ServerAddress {
  serverPublicKey?: string
}

export function resolveTarget(settings: ConnectionSettings): Target {
  const { server_public_key: serverPublicKey } = settings
  const address = resolveAddress(dialect, settings)
  checkPem(dialect, 'server_public_key', serverPublicKey)
  return { ...address, ...(serverPublicKey === undefined ? {} : { serverPublicKey }) }
}

/** The same place, however it was written: as an `url` or in parts, with or without what is the default. */
export function canonicalPlace(settings: ConnectionSettings): {
  host: string
  port: number
  database: string | null
} {
  const { host, port, database } = resolveTarget(settings)
  return { host: canonicalHost(host), port, database: database ?? null }
}
