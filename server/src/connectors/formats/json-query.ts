/**
 * Lets DuckDB read JSON lines itself, where it would read the same values as we do. Its parser turns numbers into doubles and
 * writes nested values anew, so it gets only lines of which a survey says that nothing can be lost on the way.
 */
import { quoteName, quoteText } from '../duckdb.ts'
import type { ColumnFacts, LineFacts } from '../types/column-facts.ts'
import { FLOAT64_DIGITS } from '../types/digits.ts'
import { Kind } from '../types/kinds.ts'
import type { OutputColumn } from './output-columns.ts'
import type { ParquetRows } from './parquet-query.ts'

const NUMBERS = Kind.integer | Kind.number
const STRINGS = Kind.date | Kind.timestamp | Kind.timestamptz | Kind.text

/** The rows of a file of JSON lines, or null if DuckDB must not read it. */
export function jsonRowsOf(path: string, columns: readonly OutputColumn[], lines: LineFacts): ParquetRows | null {
  if (lines.odd || columns.length === 0) return null
  const facts = new Map(lines.columns.map((each) => [each.name, each]))
  const names = new Set(columns.map(({ name }) => name.toLowerCase()))
  // DuckDB takes Id and id for the same column.
  if (names.size < columns.length || names.has('')) return null
  if (!columns.every((column) => isSame(column, facts.get(column.name)))) return null
  const types = columns.map(({ name, duckdb }) => `${quoteText(name)}: ${quoteText(duckdb)}`)
  // Each thread gets buffers of twice this size.
  const objectBytes = Math.max(2 * lines.longest, 1024 * 1024)
  return {
    table: `read_json(${quoteText(path)}, columns = {${types.join(', ')}}, format = 'newline_delimited',
      auto_detect = false, records = true, compression = 'uncompressed', maximum_object_size = ${objectBytes})`,
    cells: columns.map(({ name }) => quoteName(name)),
  }
}

/** Whether DuckDB reads all values of the field as we would write them. */
function isSame({ duckdb }: OutputColumn, facts: ColumnFacts | undefined): boolean {
  if (facts === undefined || facts.kinds === 0) return true
  const only = (kinds: number): boolean => (facts.kinds & ~kinds) === 0
  if (duckdb === 'BOOLEAN') return only(Kind.boolean)
  if (duckdb === 'SMALLINT' || duckdb === 'INTEGER' || duckdb === 'BIGINT') return only(Kind.integer)
  const decimal = /^DECIMAL\(\d+,(\d+)\)$/.exec(duckdb)
  // DuckDB multiplies the double by the power of the scale: with this many digits that gives the right integer.
  if (decimal) return only(NUMBERS) && facts.whole + Number(decimal[1]) <= FLOAT64_DIGITS
  if (duckdb === 'DOUBLE') return only(NUMBERS) && facts.double
  if (duckdb === 'DATE') return only(Kind.date)
  if (duckdb === 'TIMESTAMP') return only(Kind.timestamp | Kind.date)
  if (duckdb === 'TIMESTAMPTZ') return only(Kind.timestamptz)
  return duckdb === 'VARCHAR' && only(STRINGS)
}
