/** How each column of a table becomes JSON text, as a DuckDB expression over the column `c0`, `c1`, … */
import type { DuckDBConnection } from '@duckdb/node-api'
import { quoteName } from './duckdb.ts'

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

/** One pass over the file decides which columns hold nothing but numbers, or nothing but booleans. */
export async function csvFields(connection: DuckDBConnection, table: string): Promise<TableField[]> {
  const columns = await describe(connection, table)
  const facts = columns.map((_, at) => {
    const cell = `c${at}`
    return `bool_and(regexp_full_match(${cell}, '${JSON_NUMBER}')), bool_and(${cell} IN ('true', 'false'))`
  })
  const names = columns.map((_, at) => quoteName(`c${at}`)).join(', ')
  const result = await connection.runAndReadAll(`SELECT ${facts.join(', ')} FROM ${table} AS t(${names})`)
  const found = result.getRowsJson()[0]!
  return columns.map(({ name }, at) => {
    const raw = found[2 * at] === true || found[2 * at + 1] === true
    return { name, json: raw ? `c${at}` : `CAST(to_json(c${at}) AS VARCHAR)`, type: null }
  })
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
