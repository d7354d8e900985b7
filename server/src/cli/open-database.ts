/** The database and the keys for commands that must not migrate, and must not create an installation by a typing error. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Logger } from 'pino'
import { type Config, readConfig } from '../config/config.ts'
import { type ConnectionSettings, connectDatabase, type Database } from '../database/database.ts'
import { chooseConnection } from '../database/database-url.ts'
import { requireDatabase } from '../database/requirements.ts'
import { type Keys, openOrJoinStore } from '../database/store.ts'
import { UsageError } from '../errors.ts'
import { createLog } from '../log.ts'

export interface OpenDatabase {
  config: Config
  log: Logger
  db: Database
  connection: ConnectionSettings
  keys: Keys
}

const POOL = 4

/** Otherwise a mistyped folder would get a new, empty database and look like a success. */
export function requireInstallation({ DATABASE_URL, DATA_DIR }: Config, which: string): void {
  if (DATABASE_URL === undefined && !existsSync(path.join(DATA_DIR, 'postgres')))
    throw new UsageError(`There is no database in ${DATA_DIR}; set DATA_DIR to the folder ${which}.`)
}

export async function withDatabase<T>(work: (open: OpenDatabase) => Promise<T>, config = readConfig()): Promise<T> {
  const log = createLog(config)
  const store = await openOrJoinStore(config, log)
  let db: Database | undefined
  try {
    const connection = await chooseConnection(store)
    db = connectDatabase(connection, POOL, (error) => log.warn({ err: error }, 'a database connection broke'))
    await requireDatabase(db)
    return await work({ config, log, db, connection, keys: store.keys })
  } finally {
    await db?.close()
    await store.close()
  }
}
