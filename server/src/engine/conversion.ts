/** Converts the stage of a run, JSON lines in several blobs, into one blob of CSV or Parquet. */
import { createReadStream } from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { BlobStore, BlobWriter } from '../blobs/blobs.ts'
import type { OutputShape } from '../connectors/contract.ts'
import { openEngine, quoteName, quoteText } from '../connectors/duckdb.ts'
import { cutLines } from '../json/lines.ts'
import { type ColumnFacts, createColumnFinder, createCsvWriter, csvHeader } from './csv-writer.ts'

export interface Conversion {
  blobs: BlobStore
  /** Blobs with JSON lines, in order. */
  parts: readonly { key: string; size: number }[]
  /** Where the result goes. */
  key: string
  shape: OutputShape
  signal: AbortSignal
}

const WRITE_BYTES = 1024 * 1024
const compress = promisify(gzip)

export async function convertParts(conversion: Conversion): Promise<{ size: number }> {
  const finder = createColumnFinder()
  for await (const page of readPages(conversion)) finder.add(page)
  const columns = finder.columns()
  const writer = await conversion.blobs.writer(conversion.key)
  try {
    if (conversion.shape.format === 'parquet') await writeParquet(conversion, columns, finder.longest(), writer)
    else await writeCsv(conversion, columns, writer)
    return await writer.finish()
  } catch (error) {
    await writer.abort()
    throw error
  }
}

async function* readPages({ blobs, parts, signal }: Conversion): AsyncGenerator<Buffer> {
  for (const part of parts) {
    for await (const page of cutLines(await blobs.read(part.key))) {
      signal.throwIfAborted()
      yield page
    }
  }
}

async function* csvPages(conversion: Conversion, columns: readonly ColumnFacts[]): AsyncGenerator<Buffer> {
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

/** With gzip every block is a member of its own, which makes a valid file and keeps memory flat. */
async function writeCsv(conversion: Conversion, columns: readonly ColumnFacts[], writer: BlobWriter): Promise<void> {
  for await (const block of csvPages(conversion, columns)) {
    await writer.write(conversion.shape.compression === 'gzip' ? await compress(block) : block)
  }
}

/** By way of a CSV file of our own making, whose every cell DuckDB reads as text and casts only where nothing is lost. */
async function writeParquet(
  conversion: Conversion,
  columns: readonly ColumnFacts[],
  longest: number,
  writer: BlobWriter,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-convert-'))
  try {
    const input = join(folder, 'rows.csv')
    const output = join(folder, 'rows.parquet')
    const file = await open(input, 'wx', 0o600)
    try {
      for await (const block of csvPages(conversion, columns)) await file.writeFile(block)
    } finally {
      await file.close()
    }
    const engine = await openEngine(folder, conversion.signal)
    try {
      await engine.connection.run(parquetQuery(input, output, columns, longest, conversion.shape.compression))
    } finally {
      engine.close()
    }
    for await (const chunk of createReadStream(output, { highWaterMark: WRITE_BYTES })) await writer.write(chunk)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function parquetQuery(
  input: string,
  output: string,
  columns: readonly ColumnFacts[],
  longest: number,
  compression: OutputShape['compression'],
): string {
  // Quoting at most doubles a line. The reader wants room for two of them.
  const lineBytes = Math.max(2 * longest + 1024, 1024 * 1024)
  const codec = compression === 'gzip' ? 'gzip' : 'snappy'
  const options = `(FORMAT parquet, COMPRESSION ${codec}, ROW_GROUP_SIZE 50000)`
  // A Parquet file has at least one column, also where there were no records to learn the columns from.
  if (columns.length === 0)
    return `COPY (SELECT NULL::VARCHAR AS "empty" WHERE false) TO ${quoteText(output)} ${options}`
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

function castCell(cell: string, { integer, double, boolean }: ColumnFacts): string {
  if (integer && double && boolean) return cell
  if (integer) return `CAST(${cell} AS BIGINT)`
  if (double) return `CAST(${cell} AS DOUBLE)`
  return boolean ? `CAST(${cell} AS BOOLEAN)` : cell
}

/** To DuckDB Id and id are the same name. The later one gets a number. */
function parquetNames(columns: readonly ColumnFacts[]): string[] {
  const taken = new Set<string>()
  return columns.map(({ name }) => {
    let free = name === '' ? '_' : name
    for (let number = 2; taken.has(free.toLowerCase()); number++) free = `${name}_${number}`
    taken.add(free.toLowerCase())
    return free
  })
}
