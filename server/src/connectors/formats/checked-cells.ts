/**
 * Cells of a CSV as values of guessed types. The query checks each cell against the guess, and one that does not fit stops it.
 */
import type { ColumnFacts } from '../types/column-facts.ts'
import { isTimestamp, isTimestamptz } from './cell-facts.ts'
import type { OutputColumn } from './output-columns.ts'
import { castCell } from './parquet-query.ts'

const WRONG_GUESS = 'sluice: a cell does not fit'
/** A column that the file does not have. */
const NOTHING = 'CAST(NULL AS VARCHAR)'

const cellOf = ({ name }: OutputColumn, names: readonly string[]): string =>
  names.includes(name) ? `c${names.indexOf(name)}` : NOTHING

/** For columns that are known to hold all cells. `names` are those of the columns c0, c1, … */
export function castCells(columns: readonly OutputColumn[], names: readonly string[]): string[] {
  return columns.map((column) => castCell(cellOf(column, names), column))
}

/** Null if there is no such check. */
export function checkedCells(
  columns: readonly OutputColumn[],
  names: readonly string[],
  likely: readonly ColumnFacts[],
): string[] | null {
  const checked = columns.map((column) => {
    const facts = likely.find(({ name }) => name === column.name)
    return facts === undefined ? castCell(NOTHING, column) : checkedCell(cellOf(column, names), column, facts)
  })
  return checked.includes(null) ? null : (checked as string[])
}

export function isWrongGuess({ message }: Error): boolean {
  return message.includes(WRONG_GUESS) || message.startsWith('Conversion Error')
}

/** The cell as its type, or an error if it is not written as that type is. Null if there is no such check. */
function checkedCell(cell: string, column: OutputColumn, facts: ColumnFacts): string | null {
  const { duckdb } = column
  const checked = (wrong: string): string =>
    `CASE WHEN ${wrong} THEN error('${WRONG_GUESS}') ELSE ${castCell(cell, column)} END`
  // Of a column that was empty so far nothing is known.
  if (duckdb === 'VARCHAR') return facts.kinds === 0 ? checked(`${cell} IS NOT NULL`) : cell
  if (duckdb === 'BOOLEAN')
    return `CASE WHEN ${cell} = 'true' THEN true WHEN ${cell} = 'false' THEN false WHEN ${cell} IS NOT NULL THEN error('${WRONG_GUESS}') END`
  if (['SMALLINT', 'INTEGER', 'BIGINT', 'DATE'].includes(duckdb))
    return checked(`CAST(CAST(${cell} AS ${duckdb}) AS VARCHAR) <> ${cell}`)
  if (duckdb === 'TIMESTAMP') return checked(`NOT ${isTimestamp(cell)}`)
  if (duckdb === 'TIMESTAMPTZ') return checked(`NOT ${isTimestamptz(cell)}`)
  const [, precision, scale] = /^DECIMAL\((\d+),(\d+)\)$/.exec(duckdb) ?? []
  const whole = Number(precision) - Number(scale)
  if (!(whole > 0)) return null
  const fraction = Number(scale) === 0 ? '' : `(\\.[0-9]{1,${scale}})?`
  return checked(`NOT regexp_full_match(${cell}, '-?(0|[1-9][0-9]{0,${whole - 1}})${fraction}')`)
}
