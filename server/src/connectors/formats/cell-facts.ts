/**
 * Facts about the columns of a table whose cells are text, by the rules of a CSV: a column is of numbers if every cell is
 * written as JSON writes numbers, of booleans if every cell is true or false, of times if every cell is one in strict ISO
 * 8601; else it is text.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { type ColumnFacts, noFacts, noteNumber } from '../types/column-facts.ts'
import { kindOfString } from '../types/iso-times.ts'
import { Kind, type Kinds } from '../types/kinds.ts'

/** A number as JSON writes it. */
export const JSON_NUMBER = '-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?'
const DAY = '[0-9]{4}-[01][0-9]-[0-3][0-9]'
const CLOCK = 'T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?'
const ZONE = '(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])'

/** Conditions in SQL. A day that no month has passes them, and then cannot be cast. */
const isBoolean = (cell: string): string => `${cell} IN ('true', 'false')`
const isDate = (cell: string): string => isTime(cell, DAY)
export const isTimestamp = (cell: string): string => isTime(cell, `${DAY}(${CLOCK})?`)
export const isTimestamptz = (cell: string): string => isTime(cell, `${DAY}${CLOCK}${ZONE}`)

/** The year 0 does not exist. */
const isTime = (cell: string, form: string): string => `(regexp_full_match(${cell}, '${form}') AND ${cell} >= '0001')`

const number = new RegExp(`^${JSON_NUMBER}$`)

/** Of some rows, given by columns. */
export function factsOfCells(name: string, cells: readonly (string | null)[]): ColumnFacts {
  const facts = noFacts(name)
  const values = cells.filter((cell) => cell !== null)
  if (values.length === 0) return facts
  if (values.every((cell) => number.test(cell))) for (const cell of values) noteNumber(facts, cell)
  else if (values.every((cell) => cell === 'true' || cell === 'false')) facts.kinds = Kind.boolean
  else for (const cell of values) facts.kinds |= kindOf(cell)
  return facts
}

function kindOf(cell: string): Kinds {
  const bytes = Buffer.from(cell)
  return kindOfString(bytes, 0, bytes.length)
}

/** Of all rows. `known` are facts of some of them: a column that holds other text in those is not judged again. */
export async function factsOfTable(
  connection: DuckDBConnection,
  table: string,
  known: readonly ColumnFacts[],
): Promise<ColumnFacts[]> {
  const open = known.flatMap((facts, place) => ((facts.kinds & Kind.text) === 0 ? [{ facts, cell: `c${place}` }] : []))
  if (open.length === 0) return [...known]
  const tests = open.flatMap(({ cell }) => [
    `count(${cell})`,
    `bool_and(regexp_full_match(${cell}, '${JSON_NUMBER}'))`,
    `bool_and(${isBoolean(cell)})`,
    `bool_and(${isDate(cell)} AND TRY_CAST(${cell} AS DATE) IS NOT NULL)`,
    `bool_and(${isTimestamp(cell)} AND TRY_CAST(${cell} AS TIMESTAMP) IS NOT NULL)`,
    `bool_and(${isTimestamptz(cell)} AND TRY_CAST(${cell} AS TIMESTAMPTZ) IS NOT NULL)`,
  ])
  const [verdicts] = (await connection.runAndReadAll(`SELECT ${tests.join(', ')} FROM ${table}`)).getRowsJson()
  const judged = new Map<ColumnFacts, ColumnFacts>()
  for (const [at, { facts, cell }] of open.entries()) {
    const [count, numbers, ...others] = verdicts!.slice(at * 6, at * 6 + 6)
    const found = noFacts(facts.name)
    if (numbers === true) await noteNumbers(connection, `SELECT ${cell} FROM ${table}`, found)
    else if (Number(count) > 0) found.kinds = [...KINDS.filter((_, test) => others[test] === true), Kind.text][0]!
    judged.set(facts, found)
  }
  return known.map((facts) => judged.get(facts) ?? facts)
}

/** In the order of the tests: a date is also a timestamp at midnight, so it comes first. */
const KINDS: readonly Kinds[] = [Kind.boolean, Kind.date, Kind.timestamp, Kind.timestamptz]

/** How many digits numbers have is counted here, because nothing must be rounded on the way. */
async function noteNumbers(connection: DuckDBConnection, query: string, facts: ColumnFacts): Promise<void> {
  const result = await connection.stream(query)
  for (;;) {
    const chunk = await result.fetchChunk()
    if (!chunk || chunk.rowCount === 0) return
    for (const cell of chunk.getColumnValues(0)) if (typeof cell === 'string') noteNumber(facts, cell)
  }
}
