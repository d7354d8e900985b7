/**
 * CSV and Parquet by DuckDB, from a temporary file. Each row becomes a line of JSON inside DuckDB, written so that nothing
 * passes through a double: numbers are copied as their text.
 */
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { DuckDBConnection } from '@duckdb/node-api'
import { watchSpace } from '../../blobs/disk-space.ts'
import { type Column, ConnectorError, type Page, type ReadContext, type Reading } from '../contract.ts'
import { type Engine, openEngine, quoteName, quoteText } from '../duckdb.ts'
import type { OpenFile } from './open-file.ts'
import type { FileSettings } from './settings.ts'
import { csvFields, parquetFields, type TableField } from './table-fields.ts'

const PAGE_CHARACTERS = 128 * 1024
const LONGEST_MESSAGE = 2000

export async function readTable(file: OpenFile, context: ReadContext<FileSettings>): Promise<Reading> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-file-'))
  let engine: Engine | null = null
  const cleanUp = async (): Promise<void> => {
    engine?.close()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const path = join(folder, 'file')
    const rows = Readable.from(withRoom(file.chunks, folder))
    await pipeline(rows, createWriteStream(path, { mode: 0o600 }), { signal: context.signal })
    engine = await openEngine(folder, context.signal)
    const { connection } = engine
    const table = file.format === 'csv' ? csvTable(path, context.config) : `read_parquet(${quoteText(path)})`
    const fields = file.format === 'csv' ? await csvFields(connection, table) : await parquetFields(connection, table)
    return {
      encoding: 'ndjson',
      columns: columnsOf(fields),
      pages: streamRows(connection, table, fields, context.signal, cleanUp),
    }
  } catch (error) {
    await cleanUp()
    throw explain(error, context.signal)
  }
}

async function* withRoom(chunks: AsyncIterable<Buffer>, folder: string): AsyncGenerator<Buffer> {
  const makeRoom = watchSpace(folder)
  for await (const chunk of chunks) {
    await makeRoom(chunk.length)
    yield chunk
  }
}

function csvTable(path: string, { delimiter, header }: FileSettings): string {
  const given = delimiter === undefined ? '' : `, delim = ${quoteText(delimiter)}`
  return `read_csv(${quoteText(path)}, all_varchar = true, header = ${header}${given}, nullstr = '', allow_quoted_nulls = false,
    sample_size = 20480, max_line_size = 16777216, buffer_size = 33554432)`
}

/** Only where every column has a known type: half a schema helps nobody. */
function columnsOf(fields: readonly TableField[]): Column[] | null {
  if (fields.some((field) => field.type === null)) return null
  return fields.map(({ name, type, native }) => ({
    name,
    type: type!,
    ...(native === undefined ? {} : { native: { system: 'parquet', type: native } }),
  }))
}

async function* streamRows(
  connection: DuckDBConnection,
  table: string,
  fields: readonly TableField[],
  signal: AbortSignal,
  cleanUp: () => Promise<void>,
): AsyncGenerator<Page> {
  try {
    const cells = fields.map(
      ({ name, json }) => `${quoteText(`${JSON.stringify(name)}:`)} || coalesce(${json}, 'null')`,
    )
    const line = cells.length === 0 ? "'{}'" : `'{' || ${cells.join(` || ',' || `)} || '}'`
    const result = await connection.stream(
      `SELECT ${line} AS line FROM ${table} AS t(${fields.map((_, at) => quoteName(`c${at}`)).join(', ')})`,
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
    throw explain(error, signal)
  } finally {
    await cleanUp()
  }
}

/** DuckDB's own words are good; the path of the temporary file in them is nobody's business. */
function explain(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof ConnectorError) return error
  const message = error instanceof Error ? error.message : String(error)
  // It quotes lines of the file, which may be as long as they like.
  const first = message
    .slice(0, LONGEST_MESSAGE)
    .replace(/'?"?[^\s'"]*sluice-file-[^\s'"]*'?"?/g, 'the file')
    .split('\n')
    .slice(0, 3)
    .join(' ')
  return new ConnectorError('source', `The file could not be read: ${first}`, { cause: error })
}
