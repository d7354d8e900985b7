/** A bad network in front of the database of a test. */
import type { ConnectionSettings } from '../../src/database/database.ts'
import { type CuttingProxy, startCuttingProxy } from './cutting-proxy.ts'

export interface DatabaseProxy extends CuttingProxy {
  /** The same database by way of the proxy. */
  connection: ConnectionSettings & { port: number }
  url: string
}

export async function startDatabaseProxy(connection: ConnectionSettings): Promise<DatabaseProxy> {
  const proxy = await startCuttingProxy({ path: `${connection.host}/.s.PGSQL.5432` })
  const { user, password, database } = connection
  return Object.assign(proxy, {
    connection: { ...connection, host: '127.0.0.1', port: proxy.port },
    url: `postgres://${user}:${password}@127.0.0.1:${proxy.port}/${database}`,
  })
}
