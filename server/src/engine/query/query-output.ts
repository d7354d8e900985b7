/**
 * Runs SQL over the output of a run, or shows its first rows. DuckDB is locked down (connectors/duckdb.ts) and sees one
 * folder, which holds that output alone; the statement is only run if it reads nothing but the table `output`.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BlobStore } from '../../blobs/blobs.ts'
import { DiskFull } from '../../blobs/disk-space.ts'
import { DamagedPart } from '../../blobs/parts.ts'
import { ConnectorError } from '../../connectors/contract.ts'
import { openEngine } from '../../connectors/duckdb.ts'
import { allowSql } from './allowed-sql.ts'
import { createOutputTable, type QueriedOutput } from './output-table.ts'
import { type ResultFormat, type WrittenResult, writeResult } from './result.ts'

export interface OutputQuery {
  output: QueriedOutput
  blobs: BlobStore
  /** Null: the first rows, of which only the beginning of the output is read. */
  sql: string | null
  format: ResultFormat
  /** The most rows to return. */
  limit: number
  memoryMb: number
  /** The most of the output that is copied to disk, decompressed. */
  maxBytes?: number
  signal: AbortSignal
}

/** The process is only good for this query afterwards: its working directory is gone. */
export async function queryOutput(query: OutputQuery): Promise<WrittenResult> {
  const { signal, sql, limit } = query
  const folder = await mkdtemp(join(tmpdir(), 'query-'))
  process.chdir(folder)
  try {
    const engine = await openEngine(folder, signal, { memoryMb: query.memoryMb })
    try {
      const { connection } = engine
      const statement = sql === null ? 'SELECT * FROM output' : await allowSql(connection, sql)
      const rows = sql === null ? limit : null
      const known = await createOutputTable({ connection, rows, ...query })
      if (sql === null && !known) return { columns: [], rows: 0, truncated: false, body: Buffer.from('[]') }
      const prepared = await connection.prepare(statement)
      return await writeResult(await prepared.stream(), query.format, { rows: limit, signal })
    } finally {
      engine.close()
    }
  } catch (error) {
    throw explain(error, folder, signal)
  } finally {
    process.chdir('/')
    await rm(folder, { recursive: true, force: true })
  }
}

const LONGEST_MESSAGE = 2000

/** DuckDB's messages are good; nothing of the server may be in them. */
function explain(error: unknown, folder: string, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof ConnectorError) return error
  if (error instanceof DiskFull) return new ConnectorError('limit', error.message, { cause: error })
  if (error instanceof DamagedPart)
    return new ConnectorError('source', 'The stored output is damaged and cannot be read', { cause: error })
  const message = error instanceof Error ? error.message : String(error)
  if (!/^[A-Z][A-Za-z ]+ Error: /.test(message)) return error
  const shown = message
    .slice(0, LONGEST_MESSAGE)
    .replaceAll(folder, '')
    .replace(/\/?output\.data/g, 'output')
  return new ConnectorError(/^Out of Memory Error/.test(message) ? 'memory' : 'config', shown.trim(), { cause: error })
}
