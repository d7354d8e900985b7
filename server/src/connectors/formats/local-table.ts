/** What a source gives instead of pages to a destination that converts it as a whole. */
import type { DuckDBConnection } from '@duckdb/node-api'
import { quoteText } from '../duckdb.ts'
import type { ColumnFacts, LineFacts } from '../types/column-facts.ts'
import type { CsvChunk, CsvChunks } from './csv-chunks.ts'

export type Table = LocalTable | ChunkedCsv | LineTable

/** JSON lines, at least one. */
export interface LineTable {
  /** A page is gone when the next one is asked for. */
  pages: AsyncIterable<SurveyedLines>
}

export interface SurveyedLines {
  bytes: Buffer
  records: number
  facts: LineFacts
}

/** A CSV that is divided while it is read, in a temporary folder. It has at least one row. */
export interface ChunkedCsv {
  chunks: CsvChunks
  folder: string
  names: readonly string[]
  /** What the first chunk has most likely in the columns. */
  likely: ColumnFacts[]
  /** A table expression with the columns c0, c1, … */
  sql(chunks: readonly CsvChunk[]): string
  /** The same file in one piece; the chunks are gone. Null if DuckDB cannot read it like that. */
  join(): Promise<LocalTable | null>
  explain(error: unknown): unknown
  close(): Promise<void>
}

/** A CSV file in a temporary folder whose every cell DuckDB reads as text. */
export interface LocalTable {
  connection: DuckDBConnection
  /** The only folder that DuckDB can access. */
  folder: string
  names: readonly string[]
  /** A table expression with the columns c0, c1, … The longest line may have `lineBytes`. */
  sql(lineBytes: number): string
  /** An error of reading it, for people. */
  explain(error: unknown): unknown
  /** Closes DuckDB, which gives its memory back; the folder stays. */
  release(): void
  close(): Promise<void>
}

export interface Dialect {
  delimiter: string
  quote: string
  escape: string
  newline: string
  names: string[]
}

const EMPTY = '(empty)'
/** Buffers for lines up to this length are small; only a file with longer ones gets large ones. */
export const USUAL_LINE_BYTES = 2 * 1024 * 1024
export const LONGEST_LINE_BYTES = 16 * 1024 * 1024

/**
 * How a CSV is written, judged by its first rows. Null if it is unusual (comments, lines before the header, mixed ends of
 * lines): such files are left to DuckDB's own detection.
 */
export async function detectDialect(
  connection: DuckDBConnection,
  path: string,
  { delimiter, header }: { delimiter?: string | undefined; header: boolean },
): Promise<Dialect | null> {
  const given = delimiter === undefined ? '' : `, delim = ${quoteText(delimiter)}`
  const result = await connection.runAndReadAll(
    `SELECT "Delimiter", "Quote", "Escape", "NewLineDelimiter", "Comment", "SkipRows", "HasHeader", "Columns"
    FROM sniff_csv(${quoteText(path)}, all_varchar = true, header = ${header}${given}, nullstr = '',
      sample_size = 20480, max_line_size = ${USUAL_LINE_BYTES}, buffer_size = ${2 * USUAL_LINE_BYTES})`,
  )
  const [found, quote, escaping, newline, comment, skipped, hasHeader, columns] = result.getRowsJson()[0]!
  const usual = comment === EMPTY && Number(skipped) === 0 && hasHeader === header
  if (!usual || (newline !== '\\n' && newline !== '\\r\\n')) return null
  return {
    delimiter: delimiter ?? String(found),
    // That the first rows have no quotes does not mean that none has.
    quote: quote === EMPTY ? '"' : String(quote),
    escape: escaping === EMPTY ? (quote === EMPTY ? '"' : String(quote)) : String(escaping),
    newline,
    names: (columns as { name: string }[]).map(({ name }) => name),
  }
}

/**
 * `strict_mode` is not given, although it is the default: DuckDB 1.5 finds no rows at all in a file with \r\n if it is given
 * together with `new_line`.
 */
export function csvTableSql(paths: readonly string[], header: boolean, dialect: Dialect, lineBytes: number): string {
  const types = dialect.names.map((_, place) => `'c${place}': 'VARCHAR'`)
  return `read_csv([${paths.map(quoteText).join(', ')}], columns = {${types.join(', ')}}, header = ${header}, auto_detect = false,
    delim = ${quoteText(dialect.delimiter)}, quote = ${quoteText(dialect.quote)}, escape = ${quoteText(dialect.escape)},
    new_line = ${quoteText(dialect.newline)}, nullstr = '', allow_quoted_nulls = false,
    max_line_size = ${lineBytes}, buffer_size = ${2 * lineBytes})`
}
