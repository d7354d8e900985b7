/**
 * DuckDB for one file, locked down: it can access one temporary folder and nothing else, loads no extensions, and no
 * query can change that. It is only loaded when a file needs it.
 */
import type { DuckDBConnection } from '@duckdb/node-api'

let opened = false

/** Whether this process has ever read a tenant's file with DuckDB; if so, it is discarded after the run. */
export function duckdbWasOpened(): boolean {
  return opened
}

const MEMORY_MB = 256

export interface Engine {
  connection: DuckDBConnection
  close(): void
}

export async function openEngine(folder: string, signal: AbortSignal, memoryMb = MEMORY_MB): Promise<Engine> {
  opened = true
  const { DuckDBInstance } = await import('@duckdb/node-api')
  signal.throwIfAborted()
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const interrupt = (): void => connection.interrupt()
  signal.addEventListener('abort', interrupt)
  const settings = [
    `SET memory_limit = '${memoryMb}MB'`,
    'SET threads = 1',
    'SET preserve_insertion_order = true',
    `SET temp_directory = ${quoteText(folder)}`,
    "SET max_temp_directory_size = '8GB'",
    'SET autoinstall_known_extensions = false',
    'SET autoload_known_extensions = false',
    `SET allowed_directories = [${quoteText(`${folder}/`)}]`,
    'SET enable_external_access = false',
    'SET lock_configuration = true',
  ]
  for (const setting of settings) await connection.run(setting)
  return {
    connection,
    close() {
      signal.removeEventListener('abort', interrupt)
      connection.closeSync()
      instance.closeSync()
    },
  }
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
