/**
 * Columns of a table in ClickHouse: which type holds the values of a neutral type without loss, and what a column needs
 * before others fit. Neutral types that ClickHouse has no type for are named in the column's comment (`sluice:json`), so that
 * a later run and the source know them again.
 *
 *   decimal      Decimal(76, 38); what does not fit becomes String
 *   timestamp    DateTime64(6, 'UTC') with a comment: without a zone ClickHouse would take that of the server
 *   json, lists  String with the JSON as it is: the type JSON rounds long numbers, and an Array cannot be null
 *   bytes, time, interval   String
 */
import { type Column, ConnectorError } from '../../contract.ts'
import { type ColumnType, isColumnType, partsOf } from '../../types/column-types.ts'
import { Kind, type Kinds, widenType } from '../../types/kinds.ts'
import { commonType } from '../../types/widening.ts'
import { quoteName, quoteText } from '../shared/names.ts'
import { meantType, neutralType, parseClickhouseType, SYSTEM, typeComment } from '../shared/type-names.ts'

export interface TableColumn {
  name: string
  /** What its values are, as far as records are concerned. */
  neutral: ColumnType
  /** As SQL writes it, without Nullable. */
  sql: string
  nullable: boolean
}

const ANY_DECIMAL: ColumnType = 'decimal(76,38)'
const MAX_DIGITS = 76
const MAX_FRACTION = 6

/** The neutral type that a column of ClickHouse can have for values of this one. */
function storable(type: ColumnType): ColumnType {
  const { base, precision, list } = partsOf(type)
  if (list) return 'json'
  if (base !== 'decimal') return type
  if (precision === undefined) return ANY_DECIMAL
  return precision <= MAX_DIGITS ? type : 'text'
}

const plain: Record<string, string> = {
  boolean: 'Bool',
  int16: 'Int16',
  int32: 'Int32',
  int64: 'Int64',
  float32: 'Float32',
  float64: 'Float64',
  text: 'String',
  bytes: 'String',
  date: 'Date32',
  time: 'String',
  timestamp: "DateTime64(6, 'UTC')",
  timestamptz: "DateTime64(6, 'UTC')",
  interval: 'String',
  uuid: 'UUID',
  json: 'String',
}

/** Types that the comment has to name. */
const commented = new Set<string>(['bytes', 'time', 'timestamp', 'interval', 'json'])

export function makeColumn(name: string, type: ColumnType): TableColumn {
  const neutral = storable(type)
  const { precision, scale } = partsOf(neutral)
  return { name, neutral, sql: plain[neutral] ?? `Decimal(${precision}, ${scale})`, nullable: true }
}

const zone = "'[A-Za-z0-9_+/-]{1,40}'"
/** Native types whose text form ClickHouse reads back as the same value. */
const kept = new RegExp(
  `^(?:U?Int(?:8|16|32|64|128|256)|Decimal\\(\\d{1,2}, \\d{1,2}\\)|Date|DateTime(?:\\(${zone}\\))?|DateTime64\\([0-6](?:, ${zone})?\\)|IPv4|IPv6)$`,
)

/** The column for one that a source declares: with the native type if the source is ClickHouse too. */
export function declaredColumn({ type, native }: Column, name: string): TableColumn {
  if (!isColumnType(type))
    throw new ConnectorError(
      'source',
      `The source gives the column ${JSON.stringify(name.slice(0, 100))} a type that does not exist: ${JSON.stringify(String(type).slice(0, 100))}`,
    )
  const column = makeColumn(name, type)
  if (native?.system !== SYSTEM) return column
  const own = parseClickhouseType(native.type)
  return kept.test(own.text) && neutralType(own) === type ? { ...column, neutral: type, sql: own.text } : column
}

/** A column of an existing table. */
export function existingColumn(name: string, type: string, comment: string): TableColumn {
  const own = parseClickhouseType(type)
  return {
    name,
    neutral: meantType(own, comment) ?? neutralType(own) ?? 'text',
    sql: own.text,
    nullable: own.nullable,
  }
}

/** How many fractional digits of a second a column keeps; ClickHouse drops the others without a word. */
export function fractionOf({ sql }: TableColumn): number {
  const { base, args } = parseClickhouseType(sql)
  if (base === 'DateTime') return 0
  return base === 'DateTime64' ? Math.min(Number(args[0]), MAX_FRACTION) : MAX_FRACTION
}

const isText = (type: ColumnType): boolean => type === 'text' || type === 'interval'

/** What a column must become before values of another fit; null if it holds them. */
export function widenFor(have: TableColumn, wanted: TableColumn): TableColumn | null {
  if (isText(have.neutral))
    return have.sql === 'String' || have.sql === wanted.sql ? null : widened(have, makeColumn(have.name, 'text'))
  if (have.neutral === wanted.neutral) {
    if (fractionOf(wanted) > fractionOf(have)) return widened(have, makeColumn(have.name, have.neutral))
    return widenSize(have, wanted)
  }
  if (have.neutral === 'json') return wanted.neutral === 'text' ? null : widened(have, makeColumn(have.name, 'text'))
  const common = storable(commonType(have.neutral, wanted.neutral))
  if (common === have.neutral) return null
  // A float as a decimal would show the digits of its binary form.
  const exact = have.neutral.startsWith('float') && common.startsWith('decimal') ? 'text' : common
  return widened(have, exact === wanted.neutral ? wanted : makeColumn(have.name, exact))
}

const widened = (have: TableColumn, to: TableColumn): TableColumn => ({
  ...to,
  name: have.name,
  nullable: have.nullable,
})

/** Int8 and UInt8 are int16 here: only Int16 itself holds every value of that. */
function widenSize(have: TableColumn, wanted: TableColumn): TableColumn | null {
  if (have.sql === wanted.sql || wanted.sql !== makeColumn('', wanted.neutral).sql) return null
  const narrow = /^(Int8|UInt8|UInt16|UInt32|UInt64|Date)$/.test(have.sql)
  return narrow ? widened(have, wanted) : null
}

/** What a column needs to hold values of these kinds, none of which fit so far. */
export function widenForKinds(have: TableColumn, kinds: Kinds): TableColumn | null {
  if (fractionOf(have) < MAX_FRACTION && (kinds & ~(Kind.timestamp | Kind.timestamptz | Kind.date)) === 0) {
    const own = have.neutral === 'timestamptz' ? Kind.timestamptz : Kind.timestamp | Kind.date
    if ((kinds & ~own) === 0) return widened(have, makeColumn(have.name, have.neutral))
  }
  const wider = widenType(have.neutral, kinds)
  if (wider === null) return null
  const exact = have.neutral.startsWith('float') && wider === 'decimal' ? 'text' : wider
  const column = makeColumn(have.name, exact)
  return widened(have, column.neutral === have.neutral ? makeColumn(have.name, 'text') : column)
}

export const sameColumn = (one: TableColumn, other: TableColumn): boolean =>
  one.neutral === other.neutral && one.sql === other.sql

export function commentOf({ neutral, sql }: TableColumn): string {
  return commented.has(neutral) && plain[neutral] === sql ? typeComment(neutral) : ''
}

/** A column in CREATE TABLE or ALTER TABLE. */
export function columnSql(column: TableColumn, comment = commentOf(column)): string {
  const { name, sql, nullable } = column
  return `${quoteName(name)} ${nullable ? `Nullable(${sql})` : sql}${comment === '' ? '' : ` COMMENT ${quoteText(comment)}`}`
}

export const byName = (columns: readonly TableColumn[]): Map<string, TableColumn> =>
  new Map(columns.map((column) => [column.name, column]))

/** As the contract describes columns. */
export const describeColumn = ({ name, neutral, sql, nullable }: TableColumn): Column => ({
  name,
  type: neutral,
  nullable,
  native: { system: SYSTEM, type: nullable ? `Nullable(${sql})` : sql },
})

/** A column stored from an earlier run, which may have loaded another system. */
export const keptColumn = ({ name, type }: Column): TableColumn => makeColumn(name, type)
