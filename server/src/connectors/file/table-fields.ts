/** How each column of a table becomes JSON text, as a DuckDB expression over the column `c0`, `c1`, … */
import type { DuckDBConnection } from '@duckdb/node-api'

export interface TableField {
  name: string
  /** The expression that gives the JSON text of a cell, or NULL. */
  json: string
  /** A PostgreSQL type, where the file says one. */
  type: string | null
}

const JSON_NUMBER = '-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?'

async function describe(connection: DuckDBConnection, table: string): Promise<{ name: string; type: string }[]> {
  const result = await connection.runAndReadAll(`DESCRIBE SELECT * FROM ${table}`)
  return result.getRowsJson().map((row) => ({ name: String(row[0]), type: String(row[1]) }))
}

/** Cells that stand as they are in JSON. */
const RAW_TESTS = [
  (cell: string) => `regexp_full_match(${cell}, '${JSON_NUMBER}')`,
  (cell: string) => `${cell} IN ('true', 'false')`,
]

interface RawTest {
  column: number
  condition: string
}

/**
 * A column that holds nothing but numbers, or nothing but booleans, is copied into the JSON as it is. The whole file decides;
 * a look at its beginning spares most columns of text the test.
 */
export async function csvFields(connection: DuckDBConnection, table: string): Promise<TableField[]> {
  const columns = await describe(connection, table)
  const cells = columns.map((_, at) => `c${at}`)
  const all = cells.flatMap((cell, column) => RAW_TESTS.map((test) => ({ column, condition: test(cell) })))
  const rows = `SELECT * FROM ${table} AS t(${cells.join(', ')})`
  const early = await judge(connection, `${rows} LIMIT 2048`, all)
  // Null: all cells so far were empty, which says nothing yet.
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
  return columns.map(({ name, type }, at) => ({ name, ...expression(`c${at}`, type) }))
}

function expression(cell: string, type: string): { json: string; type: string } {
  const asText = `CAST(${cell} AS VARCHAR)`
  const quoted = (text: string): string => `CAST(to_json(${text}) AS VARCHAR)`
  const whole: Record<string, string> = {
    TINYINT: 'int2',
    SMALLINT: 'int2',
    UTINYINT: 'int2',
    INTEGER: 'int4',
    USMALLINT: 'int4',
    BIGINT: 'int8',
    UINTEGER: 'int8',
    UBIGINT: 'numeric',
    HUGEINT: 'numeric',
    UHUGEINT: 'numeric',
  }
  if (whole[type]) return { json: asText, type: whole[type] }
  if (type.startsWith('DECIMAL(')) return { json: asText, type: type.replace('DECIMAL', 'numeric') }
  if (type === 'FLOAT' || type === 'DOUBLE') {
    return { json: `CASE WHEN isfinite(${cell}) THEN ${asText} END`, type: type === 'FLOAT' ? 'float4' : 'float8' }
  }
  if (type === 'BOOLEAN') return { json: asText, type: 'bool' }
  if (type === 'DATE') return { json: quoted(asText), type: 'date' }
  if (type.startsWith('TIMESTAMP WITH TIME ZONE')) {
    // Without a time zone of its own the session is in UTC; the cast to a plain timestamp gives that very wall clock.
    return {
      json: quoted(`replace(CAST(${cell} AT TIME ZONE 'UTC' AS VARCHAR), ' ', 'T') || 'Z'`),
      type: 'timestamptz',
    }
  }
  if (type.startsWith('TIMESTAMP')) return { json: quoted(`replace(${asText}, ' ', 'T')`), type: 'timestamp' }
  if (type === 'UUID') return { json: quoted(asText), type: 'uuid' }
  if (type === 'BLOB') return { json: quoted(`base64(${cell})`), type: 'text' }
  const nested = /[[\]]$/.test(type) || /^(STRUCT|MAP|UNION)\(/.test(type) || type === 'JSON'
  if (nested) return { json: `CAST(to_json(${cell}) AS VARCHAR)`, type: 'jsonb' }
  return { json: quoted(asText), type: 'text' }
}
