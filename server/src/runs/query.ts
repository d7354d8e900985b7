/**
 * SQL over the output of a run, and its first rows. An executor of the API does the work; here it is decided whose output
 * it is. The statement may hold data, so it is neither logged nor stored.
 */
import { type BlobSettings, pickBlobSettings } from '../blobs/open.ts'
import type { Column } from '../connectors/contract.ts'
import { readKeptColumns, type StoredColumn } from '../connectors/kept-columns.ts'
import { type Database, sql } from '../database/database.ts'
import type { QueriedOutput } from '../engine/query/output-table.ts'
import { AppError } from '../errors.ts'
import type { Answers } from '../executors/answers.ts'
import type { CallPool } from '../executors/call-pool.ts'
import { trimError } from '../executors/reports.ts'
import type { Actor } from '../tenancy/actor.ts'
import { findOutput, type OutputFile } from './download.ts'
import { databaseOf, formatOf, isCompressed } from './output-format.ts'

interface QueryServices {
  db: Database
  config: BlobSettings & { CALL_MEMORY_MB: number }
  calls: CallPool
}

export interface QueryRequest {
  run_id: string
  /** Null: the first rows. */
  sql: string | null
  format: 'json' | 'csv'
  limit: number
}

export type QueryResult = Answers['query'] & { body: Buffer }

/** Of the memory of a call; the rest is for the process around DuckDB. */
const DUCKDB_SHARE = 0.4

export async function queryOutput(
  { db, config, calls }: QueryServices,
  actor: Actor,
  { run_id, ...request }: QueryRequest,
  signal: AbortSignal,
): Promise<QueryResult> {
  const file = await findOutput(db, actor, run_id)
  const output = describeOutput(file, await readKept(db, run_id))
  const memory_mb = Math.floor(config.CALL_MEMORY_MB * DUCKDB_SHARE)
  const input = { ...request, output, memory_mb, blobs: pickBlobSettings(config) }
  const result = await calls.run(actor.organization_id, 'query', input, { signal })
  if (result.ok) return { ...result.answer, body: result.body }
  // What the statement asked for, or more than it may take.
  if (result.kind !== 'internal' && result.kind !== 'source')
    throw new AppError('invalid_input', trimError(result.message))
  throw new AppError('unavailable', trimError(result.message), { 'Retry-After': '5' })
}

function describeOutput(file: OutputFile, kept: Column[] | null): QueriedOutput {
  const format = formatOf(file)
  const source = databaseOf(file)
  if (source !== null)
    throw new AppError(
      'invalid_input',
      `This output is a ${source} database, which cannot be queried here; read it with the source ${source}, whose \`run_id\` is this run`,
    )
  if (format === null)
    throw new AppError('invalid_input', `This output is of the type ${file.output_type}, which cannot be queried`)
  const columns = file.output_columns
  if (format === 'tsv' && columns === null)
    throw new AppError(
      'invalid_input',
      'The columns of this output were not stored, because an older version wrote it; run the pipeline again',
    )
  return { format, gzip: isCompressed(file), parts: file.output_parts, columns, kept }
}

/** The columns that the pipeline had last. */
async function readKept(db: Database, runId: string): Promise<Column[] | null> {
  const row = await db.first<{ columns: StoredColumn[] }>(
    sql`SELECT s.columns FROM pipeline_schemas s JOIN runs r ON r.pipeline_id = s.pipeline_id WHERE r.id = ${runId}`,
  )
  return row ? readKeptColumns(row.columns) : null
}
