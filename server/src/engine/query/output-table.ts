/**
 * Makes an output readable for DuckDB: a file in the folder of the call, and a view `output` over it with the columns and
 * types that hold every value exactly. Nothing of it is held in memory.
 */
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import type { DuckDBConnection } from '@duckdb/node-api'
import type { BlobStore } from '../../blobs/blobs.ts'
import { watchSpace } from '../../blobs/disk-space.ts'
import { readParts } from '../../blobs/part-reader.ts'
import type { StoredPart } from '../../blobs/parts.ts'
import { type Column, ConnectorError } from '../../connectors/contract.ts'
import { quoteName, quoteText } from '../../connectors/duckdb.ts'
import { createCsvWriter } from '../../connectors/formats/csv-writer.ts'
import { LineSurvey, surveyLines } from '../../connectors/formats/line-survey.ts'
import { chooseOutputColumns, type OutputColumn } from '../../connectors/formats/output-columns.ts'
import { createRowReader } from '../../connectors/types/tsv-records.ts'
import { cutLines } from '../../json/lines.ts'
import { chooseTypes, GUESSED, type TextCell } from './cell-types.ts'
import { createRowMeasure, cutPages, firstLines, firstRows } from './rows.ts'
import { canReadTsv, lineLimits, tsvCells, tsvRows } from './tsv-table.ts'

/** An output, as its run lists it. */
export interface QueriedOutput {
  format: 'jsonl' | 'csv' | 'tsv' | 'parquet'
  gzip: boolean
  parts: StoredPart[]
  /** Of tab-separated text. */
  columns: Column[] | null
  /** The columns that the pipeline had last, for an output without records. */
  kept: Column[] | null
}

interface Staging {
  connection: DuckDBConnection
  blobs: BlobStore
  output: QueriedOutput
  signal: AbortSignal
  /** How many rows are wanted; null for all of them. */
  rows: number | null
  /** The most that is written to disk. */
  maxBytes?: number | undefined
}

/** A query has half a minute, so more than this would not be read in time anyway. */
const MAX_BYTES = 4 * 1024 ** 3

/** In the working directory of the process, so that no message and no plan shows a path of the server. */
const FILE = 'output.data'

/** Returns false if the output has neither records nor known columns. */
export async function createOutputTable(staging: Staging): Promise<boolean> {
  const { output, connection } = staging
  if (output.format === 'parquet') return openParquet(staging)
  if (output.format === 'csv') return openCsv(staging)
  if (output.format === 'tsv' && canReadTsv(output.columns!)) return openTsv(staging)
  const select = await convertRecords(staging)
  await createView(connection, select ?? NOTHING)
  return select !== null
}

/** A table has at least one column. */
const NOTHING = 'SELECT NULL::JSON AS "record" WHERE false'

const createView = (connection: DuckDBConnection, select: string) => connection.run(`CREATE VIEW output AS ${select}`)

async function openParquet(staging: Staging): Promise<boolean> {
  await writeFile(staging, readParts(staging.blobs, staging.output.parts))
  await createView(staging.connection, `SELECT * FROM read_parquet(${quoteText(FILE)})`)
  return true
}

async function openCsv(staging: Staging): Promise<boolean> {
  const { connection, rows } = staging
  const bytes = readBytes(staging)
  const longest = await writeFile(staging, rows === null ? bytes : firstRows(bytes, rows + 2))
  if (longest === 0) {
    const columns = staging.output.kept ?? []
    await createView(connection, emptySelect(columns))
    return columns.length > 0
  }
  const table = `read_csv(${quoteText(FILE)}, header = true, all_varchar = true, ${CSV_FORM}, auto_detect = true,
    ${lineLimits(longest)})`
  const described = await connection.runAndReadAll(`DESCRIBE SELECT * FROM ${table}`)
  const names = described.getRowsJson().map(([name]) => String(name))
  const cells = names.map((_, at): TextCell => ({ sql: `c${at}`, candidates: GUESSED }))
  const numbered = `SELECT * FROM ${table} AS t(${cells.map(({ sql }) => sql).join(', ')})`
  const types = await chooseTypes(connection, numbered, cells)
  await createView(
    connection,
    castRows(numbered, names, (at) => castCell(`c${at}`, types[at]!)),
  )
  return true
}

async function openTsv(staging: Staging): Promise<boolean> {
  const { connection, rows, output } = staging
  const columns = output.columns!
  const bytes = readBytes(staging)
  const longest = await writeFile(staging, rows === null ? bytes : firstLines(bytes, rows + 1))
  if (longest === 0) {
    await createView(connection, emptySelect(columns))
    return true
  }
  const numbered = tsvRows(FILE, columns, longest)
  const cells = tsvCells(columns)
  const chosen = await chooseTypes(connection, numbered, cells)
  const cast = (at: number) => castCell(cells[at]!.sql, cells[at]!.fixed ?? chosen[at]!)
  await createView(
    connection,
    castRows(
      numbered,
      columns.map(({ name }) => name),
      cast,
    ),
  )
  return true
}

/** JSON lines, and rows that only our own reader understands: written as CSV, of which every cell is then cast. */
async function convertRecords(staging: Staging): Promise<string | null> {
  const { output, signal } = staging
  const survey = new LineSurvey()
  for await (const page of readRecords(staging)) {
    signal.throwIfAborted()
    surveyLines(survey, page)
  }
  const { columns: found, longest } = survey.take()
  const { columns } = chooseOutputColumns(output.columns, found, output.kept)
  if (found.length === 0) return columns.length === 0 ? null : emptySelect(columns)
  const write = createCsvWriter(columns.map(({ name }) => name))
  async function* rows(): AsyncGenerator<Buffer> {
    for await (const page of readRecords(staging)) yield write(page)
  }
  await writeFile(staging, rows())
  return csvSelect(columns, longest)
}

function csvSelect(columns: readonly OutputColumn[], longest: number): string {
  // Quoting at most doubles a line.
  const types = columns.map((_, at) => `'c${at}': 'VARCHAR'`).join(', ')
  const rows = `SELECT * FROM read_csv(${quoteText(FILE)}, columns = {${types}}, header = false, auto_detect = false, ${CSV_FORM},
    strict_mode = true, new_line = '\\n', ${lineLimits(2 * longest)})`
  return castRows(
    rows,
    columns.map(({ name }) => name),
    (at) => castCell(`c${at}`, columns[at]!.duckdb),
  )
}

const CSV_FORM = `delim = ',', quote = '"', escape = '"', nullstr = '', allow_quoted_nulls = false`

function emptySelect(columns: readonly Column[]): string {
  if (columns.length === 0) return NOTHING
  const chosen = chooseOutputColumns(columns, [], null).columns
  const names = distinctNames(chosen.map(({ name }) => name))
  const cells = chosen.map(({ duckdb }, at) => `NULL::${duckdb} AS ${quoteName(names[at]!)}`)
  return `SELECT ${cells.join(', ')} WHERE false`
}

function castRows(rows: string, names: readonly string[], cast: (at: number) => string): string {
  const distinct = distinctNames(names)
  return `SELECT ${distinct.map((name, at) => `${cast(at)} AS ${quoteName(name)}`).join(', ')} FROM (${rows})`
}

function castCell(cell: string, type: string | null): string {
  if (type === null || type === 'VARCHAR') return cell
  // The contract writes bytes as \x and hex digits.
  return type === 'BLOB' ? `unhex(substr(${cell}, 3))` : `CAST(${cell} AS ${type})`
}

/** DuckDB treats Id and id as the same name. The later one gets a number. */
function distinctNames(names: readonly string[]): string[] {
  const taken = new Set<string>()
  return names.map((name) => {
    let free = name === '' ? '_' : name
    for (let number = 2; taken.has(free.toLowerCase()); number++) free = `${name}_${number}`
    taken.add(free.toLowerCase())
    return free
  })
}

async function* readBytes({ blobs, output }: Staging): AsyncGenerator<Buffer> {
  const stored = readParts(blobs, output.parts)
  if (!output.gzip) return yield* stored
  const packed = Readable.from(stored)
  const unpacked = createGunzip()
  packed.once('error', (error) => unpacked.destroy(error))
  try {
    yield* packed.pipe(unpacked)
  } finally {
    packed.destroy()
    unpacked.destroy()
  }
}

/** Whole JSON lines. */
async function* readRecords(staging: Staging): AsyncGenerator<Buffer> {
  const { output, rows } = staging
  const bytes = readBytes(staging)
  const lines = cutPages(cutLines(rows === null ? bytes : firstLines(bytes, rows + 1)))
  if (output.format !== 'tsv') return yield* lines
  const read = createRowReader(output.columns!)
  for await (const page of lines) yield read(page)
}

/** Returns the length of the longest row, 0 if there is none. Stops before the disk is full. */
async function writeFile(staging: Staging, chunks: AsyncIterable<Buffer>): Promise<number> {
  const { signal, output, maxBytes = MAX_BYTES } = staging
  const makeRoom = watchSpace('.')
  const measure = createRowMeasure(output.format === 'csv')
  let written = 0
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      written += chunk.length
      if (written > maxBytes) throw tooLarge(maxBytes)
      makeRoom(chunk.length)
      measure.add(chunk)
      yield chunk
    }
  }
  await pipeline(Readable.from(counted()), createWriteStream(FILE, { mode: 0o600 }), { signal })
  return measure.longest()
}

function tooLarge(limit: number): ConnectorError {
  const size = limit >= 1024 ** 3 ? `${Math.floor(limit / 1024 ** 3)} GB` : `${Math.floor(limit / 1024)} KB`
  return new ConnectorError(
    'limit',
    `The output has more than ${size}, the most that can be queried here; download it and query the file`,
  )
}
