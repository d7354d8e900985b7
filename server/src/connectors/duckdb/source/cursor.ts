/** How DuckDB orders, compares and names values of a cursor column. */
import type { Column } from '../../contract.ts'
import type { CursorDialect } from '../../database-file/incremental.ts'
import { quoteName, quoteText } from '../../duckdb.ts'

const nativeOf = ({ native }: Column): string => native!.type

/** An enum is ordered as it was declared; its text is compared instead. */
const isText = (column: Column): boolean => column.type === 'text' && nativeOf(column) !== 'VARCHAR'
const isInstant = ({ type }: Column): boolean => type === 'timestamptz'

const comparable = (column: Column): string =>
  isText(column) ? `CAST(${quoteName(column.name)} AS VARCHAR)` : quoteName(column.name)

/** A value that somebody set and that is none of the column's type fails the query, with DuckDB's reason. */
const literal = (column: Column, text: string): string =>
  isText(column) ? quoteText(text) : `CAST(${quoteText(text)} AS ${nativeOf(column)})`

export const duckdbCursors: CursorDialect = {
  comparable,
  literal,
  text: (column) => {
    const name = quoteName(column.name)
    return isInstant(column) ? `CAST(${name} AT TIME ZONE 'UTC' AS VARCHAR) || '+00'` : `CAST(${name} AS VARCHAR)`
  },
  before: (column, text, seconds) => `${literal(column, text)} - INTERVAL ${seconds} SECOND`,
  identity: (columns) => {
    const values = columns.map(({ name }) => `CAST(${quoteName(name)} AS VARCHAR)`)
    return `md5(CAST(to_json([${values.join(', ')}]) AS VARCHAR))`
  },
  quoteIdentity: quoteText,
}
