/** Converts the stage of a run, JSON lines in several blobs, into one blob of CSV or Parquet. */
import { createReadStream } from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { BlobStore } from '../blobs/blobs.ts'
import { KEPT_FREE_BYTES, watchSpace } from '../blobs/disk-space.ts'
import { readParts } from '../blobs/part-reader.ts'
import { openPartWriter } from '../blobs/part-writer.ts'
import type { StoredPart } from '../blobs/parts.ts'
import { type Column, ConnectorError, type OutputShape, type RunLog } from '../connectors/contract.ts'
import { openEngine, quoteName, quoteText } from '../connectors/duckdb.ts'
import { cutLines } from '../json/lines.ts'
import { createColumnFinder } from './column-facts.ts'
import { createCsvWriter, csvHeader } from './csv-writer.ts'
import { chooseOutputColumns, type OutputColumn } from './output-columns.ts'

interface Conversion {
  blobs: BlobStore
  /** JSON lines, in order. */
  parts: readonly StoredPart[]
  /** Where the result goes. */
  key: string
  shape: OutputShape
  /** The columns that the source declared. */
  columns: readonly Column[] | null
  /** The columns of the pipeline's last file. */
  kept: readonly Column[] | null
  signal: AbortSignal
  log: RunLog
  /**
   * How much space must stay free on the disk of the temporary folder; by default what the service reserves for itself.
   */
  keepFreeBytes?: number
}

interface Converted {
  part: StoredPart
  columns: Column[]
}

const WRITE_BYTES = 1024 * 1024

export async function convertParts(conversion: Conversion): Promise<Converted> {
  const finder = createColumnFinder()
  for await (const page of readPages(conversion)) finder.add(page)
  const { columns, texts } = chooseOutputColumns(conversion.columns, finder.columns(), conversion.kept)
  const isParquet = conversion.shape.format === 'parquet'
  if (isParquet) for (const column of texts) warnOfText(conversion.log, column)
  const part = isParquet
    ? await writeParquet(conversion, columns, finder.longest())
    : await writeCsv(conversion, columns)
  return { part, columns: columns.map(({ name, type }) => ({ name, type })) }
}

function warnOfText(log: RunLog, { name, type }: Column): void {
  log.warn(`Column ${name} is text in this file: Parquet has no ${type} that can hold all of its values exactly.`)
}

async function* readPages({ blobs, parts, signal }: Conversion): AsyncGenerator<Buffer> {
  for await (const page of cutLines(readParts(blobs, parts))) {
    signal.throwIfAborted()
    yield page
  }
}

async function* csvPages(conversion: Conversion, columns: readonly OutputColumn[]): AsyncGenerator<Buffer> {
  const names = columns.map((column) => column.name)
  if (names.length === 0) return
  const write = createCsvWriter(names)
  let gathered = [csvHeader(names)]
  let bytes = gathered[0]!.length
  for await (const page of readPages(conversion)) {
    const rows = write(page)
    gathered.push(rows)
    bytes += rows.length
    if (bytes < WRITE_BYTES) continue
    yield Buffer.concat(gathered)
    gathered = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(gathered)
}

async function writeCsv(conversion: Conversion, columns: readonly OutputColumn[]): Promise<StoredPart> {
  const { blobs, key, shape } = conversion
  const writer = openPartWriter(blobs, key, shape.compression === 'gzip' ? 'gzip' : 'zstd')
  try {
    for await (const block of csvPages(conversion, columns)) await writer.write(block)
  } catch (error) {
    await writer.abort()
    throw error
  }
  return writer.finish()
}

/** Goes through a CSV file that we write: DuckDB reads every cell as text and casts it only if nothing is lost. */
async function writeParquet(
  conversion: Conversion,
  columns: readonly OutputColumn[],
  longest: number,
): Promise<StoredPart> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-convert-'))
  try {
    const input = join(folder, 'rows.csv')
    const output = join(folder, 'rows.parquet')
    const written = await writeRows(conversion, columns, input)
    // DuckDB's result is smaller, so the same amount of space again is enough.
    await watchSpace(folder, keptFree(conversion) + written)(written)
    const engine = await openEngine(folder, conversion.signal)
    try {
      const query = parquetQuery({ input, output, columns, longest, compression: conversion.shape.compression })
      await engine.connection.run(query).catch((error: Error) => refuseValues(error, conversion.signal))
    } finally {
      engine.close()
    }
    return await storeFile(conversion, output)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Unchanged: Parquet is compressed already. */
async function storeFile({ blobs, key }: Conversion, path: string): Promise<StoredPart> {
  const writer = await blobs.writer(key)
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: WRITE_BYTES })) await writer.write(chunk)
    return { key, ...(await writer.finish()) }
  } catch (error) {
    await writer.abort()
    throw error
  }
}

/** Writes the rows to a file while the disk has space; returns its size. */
async function writeRows(conversion: Conversion, columns: readonly OutputColumn[], path: string): Promise<number> {
  const makeRoom = watchSpace(dirname(path), keptFree(conversion))
  const file = await open(path, 'wx', 0o600)
  let written = 0
  try {
    for await (const block of csvPages(conversion, columns)) {
      await makeRoom(block.length)
      await file.writeFile(block)
      written += block.length
    }
  } finally {
    await file.close()
  }
  return written
}

const keptFree = ({ keepFreeBytes }: Conversion): number => keepFreeBytes ?? KEPT_FREE_BYTES

/** For values that do not have the type that their source declared. */
function refuseValues(error: Error, signal: AbortSignal): never {
  signal.throwIfAborted()
  const reason = /^(?:Conversion|Invalid Input) Error: ([^\n]{1,300})/.exec(error.message)?.[1]
  if (reason === undefined) throw error
  throw new ConnectorError(
    'source',
    `A value does not have the type that the source declares for its column: ${reason}`,
    {
      cause: error,
    },
  )
}

interface ParquetQuery {
  input: string
  output: string
  columns: readonly OutputColumn[]
  longest: number
  compression: OutputShape['compression']
}

function parquetQuery({ input, output, columns, longest, compression }: ParquetQuery): string {
  // Quoting at most doubles a line, and the reader needs room for two lines.
  const lineBytes = Math.max(2 * longest + 1024, 1024 * 1024)
  const codec = compression === 'gzip' ? 'gzip' : 'snappy'
  const options = `(FORMAT parquet, COMPRESSION ${codec}, ROW_GROUP_SIZE 50000)`
  // A Parquet file has at least one column. If no record ever had one, use the column that records with an id have.
  if (columns.length === 0)
    return `COPY (SELECT NULL::VARCHAR AS "_record_id" WHERE false) TO ${quoteText(output)} ${options}`
  const names = parquetNames(columns)
  const cells = columns.map((column, place) => `${castCell(`c${place}`, column)} AS ${quoteName(names[place]!)}`)
  const types = columns.map((_, place) => `'c${place}': 'VARCHAR'`)
  return `COPY (
    SELECT ${cells.join(', ')}
    FROM read_csv(${quoteText(input)}, columns = {${types.join(', ')}}, header = true, auto_detect = false, delim = ',',
      quote = '"', escape = '"', nullstr = '', allow_quoted_nulls = false, strict_mode = true, new_line = '\\n',
      max_line_size = ${lineBytes}, buffer_size = ${4 * lineBytes})
  ) TO ${quoteText(output)} ${options}`
}

function castCell(cell: string, { duckdb }: OutputColumn): string {
  if (duckdb === 'VARCHAR') return cell
  // The contract writes bytes as \x and hex digits.
  return duckdb === 'BLOB' ? `unhex(substr(${cell}, 3))` : `CAST(${cell} AS ${duckdb})`
}

/** DuckDB treats Id and id as the same name. The later one gets a number. */
function parquetNames(columns: readonly OutputColumn[]): string[] {
  const taken = new Set<string>()
  return columns.map(({ name }) => {
    let free = name === '' ? '_' : name
    for (let number = 2; taken.has(free.toLowerCase()); number++) free = `${name}_${number}`
    taken.add(free.toLowerCase())
    return free
  })
}
