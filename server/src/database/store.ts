/**
 * Where a service stores its data: a database and the keys for what is encrypted in it. By default that is the embedded
 * PostgreSQL with generated secrets, which one process opens and others on the same data folder may join; or the
 * database of DATABASE_URL, with keys from the settings.
 */
import type { LineLog } from '../log-lines.ts'
import { DataFolderInUse, lockDataFolder, makeDataFolder, readOrMakeSecrets, type Secrets } from './data-folder.ts'
import { type DatabaseAddress, readDatabaseUrl } from './database-url.ts'
import { embeddedConnection } from './embedded-postgres.ts'
import { keepEmbeddedPostgres } from './keep-embedded-postgres.ts'

export interface StoreSettings {
  DATA_DIR: string
  DATABASE_URL?: string | undefined
  BLOB_URL?: string | undefined
  JWT_SECRET_KEY?: string | undefined
  ENCRYPTION_KEY?: string[] | undefined
}

export interface Keys {
  jwt_secret: string
  encryption_keys: string[]
}

export interface Store extends DatabaseAddress {
  keys: Keys
  /** Resolves when the database answers, as far as this process can tell. */
  whenUp(): Promise<void>
  close(): Promise<void>
}

/** Opens it for this process, which then runs the embedded database. DATA_DIR becomes the folder's real path. */
export async function openStore(settings: StoreSettings, log: LineLog): Promise<Store> {
  if (settings.DATABASE_URL) return joinStore(settings)
  settings.DATA_DIR = makeDataFolder(settings.DATA_DIR)
  const unlock = await lockDataFolder(settings.DATA_DIR)
  try {
    const secrets = readOrMakeSecrets(settings.DATA_DIR)
    const { connection, whenUp, stop } = await keepEmbeddedPostgres(settings.DATA_DIR, secrets.database_password, log)
    return {
      connection,
      keys: chooseKeys(settings, secrets),
      whenUp,
      close: () => stop().finally(unlock),
    }
  } catch (error) {
    await unlock()
    throw error
  }
}

/** For a process next to the one that opened the store: it neither starts nor stops the embedded database. */
export function joinStore(settings: StoreSettings): Store {
  const other = { whenUp: async () => {}, close: async () => {} }
  if (settings.DATABASE_URL) {
    // Blobs are stored there unless BLOB_URL is set.
    if (!settings.BLOB_URL) settings.DATA_DIR = makeDataFolder(settings.DATA_DIR)
    return { ...other, ...readDatabaseUrl(settings.DATABASE_URL), keys: chooseKeys(settings, null) }
  }
  settings.DATA_DIR = makeDataFolder(settings.DATA_DIR)
  const secrets = readOrMakeSecrets(settings.DATA_DIR)
  return {
    ...other,
    connection: embeddedConnection(settings.DATA_DIR, secrets.database_password),
    keys: chooseKeys(settings, secrets),
  }
}

/** For operator commands: if a service is already running on the data folder, they use its database. */
export const openOrJoinStore = (settings: StoreSettings, log: LineLog): Promise<Store> =>
  openStore(settings, log).catch((error: Error) => {
    if (error instanceof DataFolderInUse) return joinStore(settings)
    throw error
  })

/** The folder's generated key stays readable, so that setting a key later loses nothing. */
const chooseKeys = (settings: StoreSettings, secrets: Secrets | null): Keys => ({
  jwt_secret: settings.JWT_SECRET_KEY ?? secrets!.jwt_secret,
  encryption_keys: [...(settings.ENCRYPTION_KEY ?? []), ...(secrets ? [secrets.encryption_key] : [])],
})
