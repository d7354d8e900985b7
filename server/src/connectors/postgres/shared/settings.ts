/** Where a PostgreSQL server is and how to log in: the settings both connectors share, resolved to one `Target`. */
import { type Static, Type } from '../../../schema.ts'
import { type Either, identity, secret } from '../../contract.ts'
import {
  type AddressDialect,
  canonicalHost,
  resolveAddress,
  type ServerAddress,
  tlsSettings,
} from '../../server-address.ts'

const dialect: AddressDialect = {
  connector: 'postgres',
  schemes: ['postgres', 'postgresql'],
  port: 5432,
  user: 'role',
}

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
  port: Type.Optional(identity(Type.Integer({ minimum: 1, maximum: 65535, description: `Default ${dialect.port}.` }))),
  database: Type.Optional(
    identity(Type.String({ minLength: 1, description: 'Name of the database. Default: the user name.' })),
  ),
  user: Type.Optional(Type.String({ minLength: 1, description: 'Name of the role to log in as.' })),
  password: Type.Optional(secret(Type.String({ description: 'Password of the role.' }))),
  tls: Type.Optional(tlsSettings),
}

export const eitherAddress: Either = [
  { title: 'Host and login', fields: ['host', 'port', 'database', 'user', 'password'] },
  { title: 'One URL', fields: ['url'] },
]

const connection = Type.Object(connectionSettings)
export type ConnectionSettings = Static<typeof connection>

export type Target = Required<ServerAddress>

export function resolveTarget(settings: ConnectionSettings): Target {
  const address = resolveAddress(dialect, settings)
  return { ...address, database: address.database ?? address.user }
}

/** The same place, however it was written: as an `url` or in parts, with or without what is the default. */
export function canonicalPlace(settings: ConnectionSettings): { host: string; port: number; database: string } {
  const { host, port, database } = resolveTarget(settings)
  return { host: canonicalHost(host), port, database }
}
