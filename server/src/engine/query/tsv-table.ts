/** Tab-separated text, read by DuckDB itself: its reader splits the fields, and SQL expressions undo the escapes. */
import type { Column } from '../../connectors/contract.ts'
import { quoteText } from '../../connectors/duckdb.ts'
import { type BaseType, partsOf } from '../../connectors/types/column-types.ts'
import type { TextCell } from './cell-types.ts'

/**
 * Lists have a notation of their own, which no expression converts. Of a single column DuckDB would skip the rows that
 * are empty texts.
 */
export function canReadTsv(columns: readonly Column[]): boolean {
  return columns.length > 1 && !columns.some(({ type }) => partsOf(type).list)
}

export function tsvRows(file: string, columns: readonly Column[], longest: number): string {
  const types = columns.map((_, at) => `'c${at}': 'VARCHAR'`).join(', ')
  return `SELECT * FROM read_csv(${quoteText(file)}, columns = {${types}}, header = false, auto_detect = false, delim = '\\t', quote = '',
    escape = '', nullstr = '\\N', new_line = '\\n', ${lineLimits(longest)})`
}

/** The reader needs room for two lines; more than that only costs memory. */
export function lineLimits(longest: number): string {
  const lineBytes = Math.max(longest + 1024, 1024 * 1024)
  return `max_line_size = ${lineBytes}, buffer_size = ${4 * lineBytes}`
}

interface TsvCell extends TextCell {
  /** A type that holds every value of the column. */
  fixed?: string
}

/** Types whose values always fit. For the others (an infinite date, a decimal of any length) the values decide. */
const fixed: Partial<Record<BaseType, string>> = {
  boolean: 'BOOLEAN',
  int16: 'SMALLINT',
  int32: 'INTEGER',
  int64: 'BIGINT',
  float32: 'FLOAT',
  float64: 'DOUBLE',
  bytes: 'BLOB',
  uuid: 'UUID',
  json: 'JSON',
}
const tried: Partial<Record<BaseType, string>> = {
  date: 'DATE',
  time: 'TIME',
  timestamp: 'TIMESTAMP',
  timestamptz: 'TIMESTAMPTZ',
}

export function tsvCells(columns: readonly Column[]): TsvCell[] {
  return columns.map(({ type }, at) => {
    const { base, precision = Number.POSITIVE_INFINITY, scale } = partsOf(type)
    const escaped = base === 'text' || base === 'json' || base === 'bytes' || base === 'interval'
    const sql = escaped ? undoEscapes(`c${at}`) : `c${at}`
    const certain = fixed[base]
    if (certain !== undefined) return { sql, candidates: [], fixed: certain }
    // NaN is a decimal in PostgreSQL.
    if (base === 'decimal')
      return { sql, candidates: precision <= 38 ? [`DECIMAL(${precision},${scale})`] : ['DECIMAL'] }
    return { sql, candidates: tried[base] === undefined ? [] : [tried[base]] }
  })
}

const LETTERS = { b: 8, f: 12, n: 10, r: 13, t: 9, v: 11 }

/** A doubled backslash is undone last, so that what precedes a letter is never taken for an escape of it. */
function undoEscapes(cell: string): string {
  const plain = Object.entries(LETTERS).reduce(
    (text, [letter, code]) => `replace(${text}, '\\${letter}', chr(${code}))`,
    'piece',
  )
  return `CASE WHEN contains(${cell}, '\\')
    THEN array_to_string(list_transform(string_split(${cell}, '\\\\'), lambda piece: ${plain}), '\\') ELSE ${cell} END`
}
