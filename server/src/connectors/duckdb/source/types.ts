/** What the columns of a DuckDB table are here, and how their values become JSON, as expressions. */
import type { ColumnType } from '../../types/column-types.ts'

interface FieldType {
  type: ColumnType
  /** The JSON text of a value, or NULL. */
  json: string
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

const asText = (cell: string): string => `CAST(${cell} AS VARCHAR)`
const quoted = (text: string): string => `CAST(to_json(${text}) AS VARCHAR)`
/** DuckDB writes years before 1 in its own way. */
const calendar = (text: string): string => `replace(${text}, ' (BC)', ' BC')`
const withT = (text: string): string => `regexp_replace(${calendar(text)}, '^(\\d+-\\d\\d-\\d\\d) ', '\\1T')`

const others: Record<string, (cell: string) => FieldType> = {
  BOOLEAN: (cell) => ({ type: 'boolean', json: asText(cell) }),
  DATE: (cell) => ({ type: 'date', json: quoted(calendar(asText(cell))) }),
  TIME: (cell) => ({ type: 'time', json: quoted(asText(cell)) }),
  UUID: (cell) => ({ type: 'uuid', json: quoted(asText(cell)) }),
  BLOB: (cell) => ({ type: 'bytes', json: quoted(`'\\x' || lower(hex(${cell}))`) }),
  FLOAT: (cell) => ({ type: 'float32', json: floatJson(cell) }),
  DOUBLE: (cell) => ({ type: 'float64', json: floatJson(cell) }),
  INTERVAL: (cell) => ({
    type: 'interval',
    json: quoted(`replace(replace(${asText(cell)}, 'months', 'mons'), 'month', 'mon')`),
  }),
  TIMESTAMP: (cell) => ({ type: 'timestamp', json: quoted(withT(asText(cell))) }),
  TIMESTAMP_S: (cell) => ({ type: 'timestamp', json: quoted(withT(asText(cell))) }),
  TIMESTAMP_MS: (cell) => ({ type: 'timestamp', json: quoted(withT(asText(cell))) }),
  'TIMESTAMP WITH TIME ZONE': (cell) => {
    const inUtc = `CAST(${cell} AT TIME ZONE 'UTC' AS VARCHAR)`
    return {
      type: 'timestamptz',
      json: quoted(`CASE WHEN isfinite(${cell}) THEN ${withT(`${inUtc} || 'Z'`)} ELSE ${inUtc} END`),
    }
  },
  JSON: (cell) => ({ type: 'json', json: `regexp_replace(${asText(cell)}, '[\\r\\n]', ' ', 'g')` }),
}

/** JSON has no NaN and no infinities, so they are strings. */
const floatJson = (cell: string): string =>
  `CASE WHEN isfinite(${cell}) THEN ${asText(cell)} WHEN isnan(${cell}) THEN '"NaN"' WHEN ${cell} > 0 THEN '"Infinity"' WHEN ${cell} < 0 THEN '"-Infinity"' END`

/** Elements whose JSON in a list is that of a value. */
const listed = new Set(['BOOLEAN', 'VARCHAR', 'UUID', 'DATE'])

/** `TIMESTAMP_NS`, `TIME_NS`, `TIME WITH TIME ZONE`, `BIT`, enums and what later versions add are their text. */
export function fieldOf(cell: string, native: string): FieldType {
  if (numbers[native]) return { type: numbers[native], json: asText(cell) }
  const decimal = /^DECIMAL\((\d+),(\d+)\)$/.exec(native)
  if (decimal) return { type: `decimal(${Number(decimal[1])},${Number(decimal[2])})`, json: asText(cell) }
  const known = others[native]
  if (known) return known(cell)
  if (/\[\d*\]$/.test(native) || /^(STRUCT|MAP|UNION)\(/.test(native))
    return { type: nestedType(native), json: nestedJson(cell, native) }
  return { type: 'text', json: quoted(asText(cell)) }
}

function nestedType(native: string): ColumnType {
  const element = native.replace(/\[\d*\]$/, '')
  if (element === native) return 'json'
  const number = numbers[element]
  if (number) return `${number}[]` as ColumnType
  return listed.has(element) ? (`${fieldOf('', element).type}[]` as ColumnType) : 'json'
}

/** NaN and the infinities make it invalid: such a value is its text, as a JSON string. */
function nestedJson(cell: string, native: string): string {
  const json = quoted(cell)
  if (!/\b(FLOAT|DOUBLE)\b/.test(native)) return json
  return `CASE WHEN regexp_matches(${json}, '[:,\\[]-?(NaN|Inf)') THEN ${quoted(asText(cell))} ELSE ${json} END`
}
