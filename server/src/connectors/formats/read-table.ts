/**
 * Reads CSV and Parquet with DuckDB, from a temporary file. DuckDB turns each row into a line of JSON; numbers are
 * copied as text, so nothing passes through a double.
 */
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { DuckDBConnection } from '@duckdb/node-api'
import { watchSpace } from '../../blobs/disk-space.ts'
import { type Column, ConnectorError, type Page, type Reading } from '../contract.ts'
import { type Engine, openEngine, quoteName, quoteText } from '../duckdb.ts'
import { freeBytes } from '../free-bytes.ts'
import { csvTableSql, detectDialect, LONGEST_LINE_BYTES } from './local-table.ts'
import type { OpenFile } from './open-file.ts'
import { csvFields, parquetFields, type TableField } from './table-fields.ts'

const PAGE_CHARACTERS = 128 * 1024
const LONGEST_MESSAGE = 2000

/** How a CSV is written, and the signal of the read. */
export interface TableOptions {
  signal: AbortSignal
  /** Absent: detected. */
  delimiter?: string | undefined
  header: boolean
}

export async function readTable(file: OpenFile, options: TableOptions): Promise<Reading> {
  return readRows(await storeTable(file, options), file, options)
}

export async function readRows(stored: StoredTable, { format }: OpenFile, options: TableOptions): Promise<Reading> {
  const { fields, ...rest } = await openStored(stored, format, options)
  return { columns: columnsOf(fields), pages: streamRows({ fields, ...rest }, options.signal) }
}

/** The columns and the number of rows, each if the file states it. */
export async function describeTable(
  file: OpenFile,
  options: TableOptions,
): Promise<{ columns: Column[] | null; rows: number | null; pages: AsyncGenerator<Page>; close(): Promise<void> }> {
  const table = await openTable(file, options)
  try {
    const rows = file.format === 'parquet' ? await countRows(table) : null
    return { columns: columnsOf(table.fields), rows, pages: streamRows(table, options.signal), close: table.close }
  } catch (error) {
    await table.close()
    throw explainTable(error, options.signal)
  }
}

/** A file in a temporary folder, with a DuckDB that can access only that folder. */
interface OpenTable {
  connection: DuckDBConnection
  path: string
  /** The table expression for FROM. */
  sql: string
  fields: TableField[]
  close(): Promise<void>
}

/** The file, alone in a folder. */
export interface StoredTable {
  folder: string
  path: string
  remove(): Promise<void>
}

export async function storeTable(file: Pick<OpenFile, 'chunks'>, { signal }: TableOptions): Promise<StoredTable> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-file-'))
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  const path = join(folder, 'file')
  try {
    await pipeline(file.chunks, (chunks: AsyncIterable<Buffer>) => writeChunks(path, chunks), { signal })
    return { folder, path, remove }
  } catch (error) {
    await remove()
    throw explainTable(error, signal)
  }
}

async function openTable(file: OpenFile, options: TableOptions): Promise<OpenTable> {
  return openStored(await storeTable(file, options), file.format, options)
}

async function openStored(
  { folder, path, remove }: StoredTable,
  format: OpenFile['format'],
  options: TableOptions,
): Promise<OpenTable> {
  let engine: Engine | null = null
  const close = async (): Promise<void> => {
    engine?.close()
    engine = null
    await remove()
  }
  try {
    engine = await openEngine(folder, options.signal)
    const { connection } = engine
    if (format === 'csv') return { connection, path, ...(await openCsv(connection, path, options)), close }
    const sql = `read_parquet(${quoteText(path)})`
    return { connection, path, sql, fields: await parquetFields(connection, sql), close }
  } catch (error) {
    await close()
    throw explainTable(error, options.signal)
  }
}

async function openCsv(
  connection: DuckDBConnection,
  path: string,
  options: TableOptions,
): Promise<Pick<OpenTable, 'sql' | 'fields'>> {
  // If nothing can be detected, the reader says why.
  const dialect = await detectDialect(connection, path, options).catch(() => null)
  const sql = dialect ? csvTableSql([path], options.header, dialect, LONGEST_LINE_BYTES) : csvTable(path, options)
  return { sql, fields: await csvFields(connection, sql, dialect?.names) }
}

async function countRows({ connection, path }: OpenTable): Promise<number> {
  const result = await connection.runAndReadAll(`SELECT num_rows FROM parquet_file_metadata(${quoteText(path)})`)
  return Number(result.getRowsJson()[0]![0])
}

async function writeChunks(path: string, chunks: AsyncIterable<Buffer>): Promise<void> {
  const makeRoom = watchSpace(dirname(path))
  const file = await open(path, 'wx', 0o600)
  try {
    for await (const chunk of chunks) {
      makeRoom(chunk.length)
      await file.writeFile(chunk)
      freeBytes(chunk)
    }
  } finally {
    await file.close()
  }
}

function csvTable(path: string, { delimiter, header }: TableOptions): string {
  const given = delimiter === undefined ? '' : `, delim = ${quoteText(delimiter)}`
  return `read_csv(${quoteText(path)}, all_varchar = true, header = ${header}${given}, nullstr = '', allow_quoted_nulls = false,
    sample_size = 20480, max_line_size = ${LONGEST_LINE_BYTES}, buffer_size = ${2 * LONGEST_LINE_BYTES})`
}

/** Only if every column has a known type: half a schema is no use. */
export function columnsOf(fields: readonly TableField[]): Column[] | null {
  if (fields.some((field) => field.type === null)) return null
  return fields.map(({ name, type, native }) => ({
    name,
    type: type!,
    ...(native === undefined ? {} : { native: { system: 'parquet', type: native } }),
  }))
}

/** The rows as pages of JSON lines; closes the table at the end. */
export async function* streamRows(
  { connection, sql, fields, close }: Omit<OpenTable, 'path'>,
  signal: AbortSignal,
): AsyncGenerator<Page> {
  try {
    const cells = fields.map(
      ({ name, json }) => `${quoteText(`${JSON.stringify(name)}:`)} || coalesce(${json}, 'null')`,
    )
    const line = cells.length === 0 ? "'{}'" : `'{' || ${cells.join(` || ',' || `)} || '}'`
    const result = await connection.stream(
      `SELECT ${line} AS line FROM ${sql} AS t(${fields.map((_, at) => quoteName(`c${at}`)).join(', ')})`,
    )
    let text = ''
    let records = 0
    while (true) {
      signal.throwIfAborted()
      const chunk = await result.fetchChunk()
      if (!chunk || chunk.rowCount === 0) break
      for (const row of chunk.getColumnValues(0)) text += `${row}\n`
      records += chunk.rowCount
      if (text.length < PAGE_CHARACTERS) continue
      yield { bytes: Buffer.from(text), records }
      text = ''
      records = 0
    }
    if (records > 0) yield { bytes: Buffer.from(text), records }
  } catch (error) {
    throw explainTable(error, signal)
  } finally {
    await close()
  }
}

/** DuckDB's messages are good, but the path of the temporary file is removed from them. */
export function explainTable(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof ConnectorError) return error
  const message = error instanceof Error ? error.message : String(error)
  // The message quotes lines of the file, which may be very long.
  const first = message
    .slice(0, LONGEST_MESSAGE)
    .replace(/'?"?[^\s'"]*sluice-file-[^\s'"]*'?"?/g, 'the file')
    .split('\n')
    .slice(0, 3)
    .join(' ')
  return new ConnectorError('source', `The file could not be read: ${first}`, { cause: error })
}
