/**
 * DuckDB for one file, locked down: it can access one temporary folder and nothing else, loads no extensions, and no
 * query can change that. It is only loaded when a file needs it.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { findFreeBytes, KEPT_FREE_BYTES } from '../blobs/disk-space.ts'

let opened = false

/** Whether this process has ever read a tenant's file with DuckDB; if so, it is discarded after the run. */
export function duckdbWasOpened(): boolean {
  return opened
}

const MEMORY_MB = 256
const SPILL_BYTES = 8 * 1024 ** 3

interface EngineLimits {
  memoryMb?: number | undefined
  /** More than one only where nothing reads the rows of a query one after the other. */
  threads?: number
  /** How much freed memory the allocator may keep; 128 MB by default. */
  keptMb?: number
  /** How much of the disk it leaves free. */
  keepFreeBytes?: number
}

export interface Engine {
  connection: DuckDBConnection
  close(): void
}

export async function openEngine(
  folder: string,
  signal: AbortSignal,
  { memoryMb = MEMORY_MB, threads = 1, keptMb, keepFreeBytes = KEPT_FREE_BYTES }: EngineLimits = {},
): Promise<Engine> {
  opened = true
  const { DuckDBInstance } = await import('@duckdb/node-api')
  signal.throwIfAborted()
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const interrupt = (): void => connection.interrupt()
  signal.addEventListener('abort', interrupt)
  const settings = [
    `SET memory_limit = '${memoryMb}MB'`,
    `SET threads = ${threads}`,
    ...(keptMb === undefined ? [] : [`SET allocator_flush_threshold = '${keptMb}MB'`]),
    'SET preserve_insertion_order = true',
    `SET temp_directory = ${quoteText(folder)}`,
    `SET max_temp_directory_size = '${spillMib(folder, keepFreeBytes)}MiB'`,
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

/** What it may write beyond its memory: never the reserve of the service. */
function spillMib(folder: string, keepFreeBytes: number): number {
  const bytes = Math.min(SPILL_BYTES, findFreeBytes(folder) - keepFreeBytes)
  return Math.max(1, Math.floor(bytes / 1024 ** 2))
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
