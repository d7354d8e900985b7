/**
 * PostgreSQL's type names: one spelling for each, their neutral types, and which of them may appear in a statement. A
 * type name from a source becomes part of the SQL that creates a table elsewhere, so a malicious source must not be
 * able to inject SQL through it.
 */
import { type Column, ConnectorError } from '../../contract.ts'
import { type BaseType, type ColumnType, formatType, isColumnType, partsOf } from '../../types/column-types.ts'

const names =
  `bool boolean int2 int4 int8 smallint integer bigint numeric decimal float4 float8 real double\\sprecision text
  varchar bpchar char character character\\svarying bytea date time timetz timestamp timestamptz uuid json jsonb xml inet cidr
  macaddr macaddr8 bit bit\\svarying varbit point line lseg box path polygon circle tsvector tsquery jsonpath
  interval(?:\\s(?:year|month|day|hour|minute|second))?(?:\\sto\\s(?:month|hour|minute|second))?
  (?:int4|int8|num|date|ts|tstz)(?:multi)?range`
    .trim()
    .split(/\s+/)

const size = '(?:\\(\\d{1,5}(?:, ?-?\\d{1,5})?\\))?'
const typeName = new RegExp(`^(?:${names.join('|')})${size}(?: with(?:out)? time zone)?(?:\\[\\])*$`)

export const isTypeName = (type: string): boolean => typeName.test(type)

const aliases: Record<string, string> = {
  bool: 'boolean',
  smallint: 'int2',
  integer: 'int4',
  int: 'int4',
  bigint: 'int8',
  decimal: 'numeric',
  real: 'float4',
  'double precision': 'float8',
  'character varying': 'varchar',
  character: 'bpchar',
}

export interface PostgresType {
  /** `int8`, `timestamptz`; `interval` with its fields, as `interval day to second`. */
  base: string
  /** The numbers in parentheses: lengths, precisions. */
  sizes: number[]
  list: boolean
}

const PARTS = /^([a-z0-9_" .]+?)(?:\((-?\d+)(?:, ?(-?\d+))?\))?( with time zone| without time zone)?((?:\[\])*)$/i

export function parsePostgresType(type: string): PostgresType {
  const match = PARTS.exec(type.trim())
  if (match === null) return { base: type.trim(), sizes: [], list: false }
  const [, name = '', first, second, zone, lists = ''] = match
  const known = aliases[name.toLowerCase()] ?? name
  const base = zone === ' with time zone' ? `${known}tz` : known
  const sizes = [first, second].filter((text) => text !== undefined).map(Number)
  return { base: base === 'varchar' && sizes.length === 0 ? 'text' : base, sizes, list: lists !== '' }
}

function formatPostgresType({ base, sizes, list }: PostgresType): string {
  return `${base}${sizes.length > 0 ? `(${sizes.join(',')})` : ''}${list ? '[]' : ''}`
}

/** One name per type: `bigint` and `int8` are the same, and so are `varchar` without a length and `text`. */
export function normalizeType(type: string): string {
  return formatPostgresType(parsePostgresType(type))
}

const neutral: Record<string, BaseType> = {
  boolean: 'boolean',
  int2: 'int16',
  int4: 'int32',
  int8: 'int64',
  float4: 'float32',
  float8: 'float64',
  numeric: 'decimal',
  bytea: 'bytes',
  date: 'date',
  time: 'time',
  timestamp: 'timestamp',
  timestamptz: 'timestamptz',
  uuid: 'uuid',
  json: 'json',
  jsonb: 'json',
}

/** The neutral type of a PostgreSQL type: `text` if only PostgreSQL has it. */
export function neutralType(type: string): ColumnType {
  const { base, sizes, list } = parsePostgresType(type)
  const known = base.startsWith('interval') ? 'interval' : (neutral[base] ?? 'text')
  const [precision, scale = 0] = sizes
  // A numeric may also have a negative scale, or one beyond its precision; no other system has such types.
  const fixed = known === 'decimal' && precision !== undefined && scale >= 0 && scale <= precision
  return formatType(fixed ? { base: known, precision, scale, list } : { base: known, list })
}

const own: Record<BaseType, string> = {
  boolean: 'boolean',
  int16: 'int2',
  int32: 'int4',
  int64: 'int8',
  float32: 'float4',
  float64: 'float8',
  decimal: 'numeric',
  text: 'text',
  bytes: 'bytea',
  date: 'date',
  time: 'time',
  timestamp: 'timestamp',
  timestamptz: 'timestamptz',
  interval: 'interval',
  uuid: 'uuid',
  json: 'jsonb',
}

/** The maximum precision of a numeric. */
const MAX_DIGITS = 1000

/** PostgreSQL's name for a neutral type. */
export function postgresType(type: ColumnType): string {
  const { base, precision, scale, list } = partsOf(type)
  const fixed = precision !== undefined && scale !== undefined && precision <= MAX_DIGITS
  return formatPostgresType({ base: own[base], sizes: fixed ? [precision, scale] : [], list })
}

const SYSTEM = 'postgres'

/** A PostgreSQL column as the contract describes columns. */
export function describeColumn(name: string, type: string): Column {
  return { name, type: neutralType(type), native: { system: SYSTEM, type: normalizeType(type) } }
}

/** The type that a table gets for a column that a source declares: the native one if the source is PostgreSQL too. */
export function declaredType({ name, type, native }: Column): string {
  if (!isColumnType(type)) throw wrongType(name, type)
  if (native?.system !== SYSTEM) return postgresType(type)
  if (!isTypeName(native.type)) throw wrongType(name, native.type)
  return normalizeType(native.type)
}

function wrongType(name: string, type: string): ConnectorError {
  return new ConnectorError(
    'source',
    `The source gives the column ${JSON.stringify(name.slice(0, 100))} a type that PostgreSQL does not have: ${JSON.stringify(String(type).slice(0, 100))}`,
  )
}

/**
 * The same for a column stored from an earlier run, which may have loaded another database: types specific to that one
 * become text.
 */
export function keptType({ type, native }: Column): string {
  if (native?.system === SYSTEM && isTypeName(native.type)) return normalizeType(native.type)
  return isColumnType(type) ? postgresType(type) : 'text'
}
