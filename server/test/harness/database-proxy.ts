/** A bad network in front of the database of a test. */
import type { NetConnectOpts } from 'node:net'
import type { ConnectionSettings } from '../../src/database/database.ts'
import { type CuttingProxy, startCuttingProxy } from './cutting-proxy.ts'

export interface DatabaseProxy extends CuttingProxy {
  /** The same database through the proxy. */
  connection: ConnectionSettings & { port: number }
  url: string
}

/** The embedded server has a socket in a folder; other versions, which are tested occasionally, have a port. */
export const addressOf = ({ host = '', port = 5432 }: ConnectionSettings & { port?: number }): NetConnectOpts =>
  host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }

export async function startDatabaseProxy(connection: ConnectionSettings): Promise<DatabaseProxy> {
  const proxy = await startCuttingProxy(addressOf(connection))
  const { user, password, database } = connection
  return Object.assign(proxy, {
    connection: { ...connection, host: '127.0.0.1', port: proxy.port },
    url: `postgres://${user}:${password}@127.0.0.1:${proxy.port}/${database}`,
  })
}
