/** How each column of a table becomes JSON text, as a DuckDB expression over the column `c0`, `c1`, … */
import type { DuckDBConnection } from '@duckdb/node-api'
import type { ColumnType } from '../types/column-types.ts'
import { JSON_NUMBER } from './cell-facts.ts'

export interface TableField {
  name: string
  /** The SQL expression for the JSON text of a cell, or NULL. */
  json: string
  /** The type, if the file states one, and the file's name for it. */
  type: ColumnType | null
  native?: string
}

async function describe(connection: DuckDBConnection, table: string): Promise<{ name: string; type: string }[]> {
  const result = await connection.runAndReadAll(`DESCRIBE SELECT * FROM ${table}`)
  return result.getRowsJson().map((row) => ({ name: String(row[0]), type: String(row[1]) }))
}

/** Cells that can be copied into JSON unchanged. */
const RAW_TESTS = [
  (cell: string) => `regexp_full_match(${cell}, '${JSON_NUMBER}')`,
  (cell: string) => `${cell} IN ('true', 'false')`,
]

interface RawTest {
  column: number
  condition: string
}

/**
 * A column that holds only numbers, or only booleans, is copied into the JSON unchanged. The whole file decides; a
 * sample from its beginning rules out most text columns early.
 */
export async function csvFields(
  connection: DuckDBConnection,
  table: string,
  names?: readonly string[],
): Promise<TableField[]> {
  const columns = names?.map((name) => ({ name })) ?? (await describe(connection, table))
  const cells = columns.map((_, at) => `c${at}`)
  const all = cells.flatMap((cell, column) => RAW_TESTS.map((test) => ({ column, condition: test(cell) })))
  const rows = `SELECT * FROM ${table} AS t(${cells.join(', ')})`
  const early = await judge(connection, `${rows} LIMIT 2048`, all)
  // Null: all cells so far were empty, which decides nothing yet.
  const likely = all.filter((_, at) => early[at] !== false)
  const verdicts = await judge(connection, rows, likely)
  const sure = new Set(likely.filter((_, at) => verdicts[at] === true).map(({ column }) => column))
  return columns.map(({ name }, at) => {
    const json = sure.has(at) ? `c${at}` : `CAST(to_json(c${at}) AS VARCHAR)`
    return { name, json, type: null }
  })
}

async function judge(connection: DuckDBConnection, rows: string, tests: RawTest[]): Promise<unknown[]> {
  if (tests.length === 0) return []
  const verdicts = tests.map(({ condition }) => `bool_and(${condition})`).join(', ')
  const result = await connection.runAndReadAll(`SELECT ${verdicts} FROM (${rows})`)
  return result.getRowsJson()[0]!
}

export async function parquetFields(connection: DuckDBConnection, table: string): Promise<TableField[]> {
  const columns = await describe(connection, table)
  return columns.map(({ name, type }, at) => ({ name, native: type, ...expression(`c${at}`, type) }))
}

/** Types whose text is a JSON number. */
const numbers: Record<string, ColumnType> = {
  TINYINT: 'int16',
  SMALLINT: 'int16',
  UTINYINT: 'int16',
  INTEGER: 'int32',
  USMALLINT: 'int32',
  BIGINT: 'int64',
  UINTEGER: 'int64',
  UBIGINT: 'decimal(20,0)',
  HUGEINT: 'decimal',
  UHUGEINT: 'decimal',
}

/** Types whose text already is what the contract requires. */
const texts: Record<string, ColumnType> = {
  DATE: 'date',
  TIME: 'time',
  UUID: 'uuid',
  // Finer than a microsecond: the contract has no such time.
  TIMESTAMP_NS: 'text',
}

/** The type of a Parquet column for a decimal without limits (engine/output-columns.ts). */
const UNLIMITED_DECIMAL = 'DECIMAL(38,18)'

/** JSON has no NaN and no infinities, so they are strings. */
const floatJson = (cell: string, text: string): string =>
  `CASE WHEN isfinite(${cell}) THEN ${text} WHEN isnan(${cell}) THEN '"NaN"' WHEN ${cell} > 0 THEN '"Infinity"' WHEN ${cell} < 0 THEN '"-Infinity"' END`

function expression(cell: string, type: string): { json: string; type: ColumnType } {
  const asText = `CAST(${cell} AS VARCHAR)`
  const quoted = (text: string): string => `CAST(to_json(${text}) AS VARCHAR)`
  if (numbers[type]) return { json: asText, type: numbers[type] }
  if (texts[type]) return { json: quoted(asText), type: texts[type] }
  if (type === 'BOOLEAN') return { json: asText, type: 'boolean' }
  const decimal = /^DECIMAL\((\d+),(\d+)\)$/.exec(type)
  if (decimal) {
    // What a decimal without limits is written as: its zeros say nothing about the value.
    const json = type === UNLIMITED_DECIMAL ? `rtrim(rtrim(${asText}, '0'), '.')` : asText
    return { json, type: `decimal(${Number(decimal[1])},${Number(decimal[2])})` }
  }
  if (type === 'FLOAT' || type === 'DOUBLE')
    return { json: floatJson(cell, asText), type: type === 'FLOAT' ? 'float32' : 'float64' }
  if (type.startsWith('TIMESTAMP WITH TIME ZONE')) {
    // The session runs in UTC, so the cast to a plain timestamp gives the UTC wall clock.
    return {
      json: quoted(`replace(CAST(${cell} AT TIME ZONE 'UTC' AS VARCHAR), ' ', 'T') || 'Z'`),
      type: 'timestamptz',
    }
  }
  if (type.startsWith('TIMESTAMP')) return { json: quoted(`replace(${asText}, ' ', 'T')`), type: 'timestamp' }
  if (type === 'BLOB') return { json: quoted(`'\\x' || lower(hex(${cell}))`), type: 'bytes' }
  const nested = /[[\]]$/.test(type) || /^(STRUCT|MAP|UNION)\(/.test(type) || type === 'JSON'
  if (nested) return { json: `CAST(to_json(${cell}) AS VARCHAR)`, type: 'json' }
  return { json: quoted(asText), type: 'text' }
}
