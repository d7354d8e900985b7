/** Queries that write a Parquet file. From a CSV that we write, DuckDB reads every cell as text and casts it. */
import { ConnectorError, type OutputShape } from '../contract.ts'
import { quoteName, quoteText } from '../duckdb.ts'
import type { OutputColumn } from './output-columns.ts'

/** For values that do not have the type that their source declared. */
export function refuseValues(error: Error, signal: AbortSignal): never {
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

/** Rows for a Parquet file. */
export interface ParquetRows {
  /** For FROM. */
  table: string
  /** An expression for each column, of its type. */
  cells: readonly string[]
}

interface ParquetQuery {
  rows: ParquetRows
  output: string
  columns: readonly OutputColumn[]
  compression: OutputShape['compression'] | 'zstd'
}

export function parquetQuery({ rows, output, columns, compression }: ParquetQuery): string {
  const codec = compression === 'none' ? 'snappy' : compression
  const options = `(FORMAT parquet, COMPRESSION ${codec}, ROW_GROUP_SIZE 50000)`
  // A Parquet file has at least one column. If no record ever had one, use the column that records with an id have.
  if (columns.length === 0)
    return `COPY (SELECT NULL::VARCHAR AS "_record_id" WHERE false) TO ${quoteText(output)} ${options}`
  const names = parquetNames(columns)
  const cells = rows.cells.map((cell, place) => `${cell} AS ${quoteName(names[place]!)}`)
  return `COPY (SELECT ${cells.join(', ')} FROM ${rows.table}) TO ${quoteText(output)} ${options}`
}

/** The rows of a CSV that we wrote, whose longest line had `longest` bytes as JSON. */
export function csvRowsOf(input: string, columns: readonly OutputColumn[], longest: number): ParquetRows {
  // Quoting at most doubles a line, and the reader needs room for two lines.
  const lineBytes = Math.max(2 * longest + 1024, 1024 * 1024)
  const types = columns.map((_, place) => `'c${place}': 'VARCHAR'`)
  return {
    table: `read_csv(${quoteText(input)}, columns = {${types.join(', ')}}, header = true, auto_detect = false, delim = ',',
      quote = '"', escape = '"', nullstr = '', allow_quoted_nulls = false, strict_mode = true, new_line = '\\n',
      max_line_size = ${lineBytes}, buffer_size = ${4 * lineBytes})`,
    cells: columns.map((column, place) => castCell(`c${place}`, column)),
  }
}

export function castCell(cell: string, { duckdb }: OutputColumn): string {
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
