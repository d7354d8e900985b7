/**
 * Columns of a table in DuckDB. It has a type for all that a record can hold, but none for decimals with more than 38 digits
 * (VARCHAR) and, for lists and nested values, none that would hold any of them (JSON).
 */
import type { ColumnDialect, FieldFacts, TableColumn } from '../../database-file/table-plan.ts'
import { type ColumnType, partsOf } from '../../types/column-types.ts'
import { inferType, Kind, type Kinds, traitsOf } from '../../types/kinds.ts'
import { commonType } from '../../types/widening.ts'

type Typed = Omit<TableColumn, 'name'>

const MAX_DIGITS = 38
/** Few widths, so that a table is seldom widened. */
const WIDTHS = [18, MAX_DIGITS]
const numbers = Kind.integer | Kind.number

const names: Record<string, string> = {
  boolean: 'BOOLEAN',
  int16: 'SMALLINT',
  int32: 'INTEGER',
  int64: 'BIGINT',
  float32: 'FLOAT',
  float64: 'DOUBLE',
  text: 'VARCHAR',
  bytes: 'BLOB',
  date: 'DATE',
  time: 'TIME',
  timestamp: 'TIMESTAMP',
  timestamptz: 'TIMESTAMP WITH TIME ZONE',
  interval: 'INTERVAL',
  uuid: 'UUID',
  json: 'JSON',
}

const plain = (type: ColumnType): Typed => ({ type, sql: names[type]! })

function decimal(digits: Digits): Typed {
  const precision = digits.whole + digits.scale
  if (precision > MAX_DIGITS) return plain('text')
  return { type: `decimal(${precision},${digits.scale})`, sql: `DECIMAL(${precision},${digits.scale})` }
}

interface Digits {
  whole: number
  scale: number
}

/** The same digits after the point, and as many before it as its width has. */
function roomy({ whole, scale }: Digits): Typed {
  const width = WIDTHS.find((each) => whole + scale <= each)
  return width === undefined ? plain('text') : decimal({ whole: width - scale, scale })
}

const takes: Partial<Record<string, Kinds>> = {
  boolean: Kind.boolean,
  int16: Kind.integer,
  int32: Kind.integer,
  int64: Kind.integer,
  // NaN and the infinities are strings in JSON.
  float32: numbers | Kind.text,
  float64: numbers | Kind.text,
  decimal: numbers,
  date: Kind.date,
  timestamp: Kind.timestamp | Kind.date,
  timestamptz: Kind.timestamptz,
  time: Kind.text,
  uuid: Kind.text,
  bytes: Kind.text,
  interval: Kind.text,
}

/** Values of these types are only known to be of them because the source says so. */
const declaredOnly = new Set<string>(['time', 'uuid', 'bytes', 'interval', 'float32'])
const integerDigits: Partial<Record<string, number>> = { int16: 4, int32: 9, int64: 19 }

function digitsOf(type: ColumnType): Digits | null {
  const { base, precision, scale } = partsOf(type)
  const whole = { int16: 5, int32: 10, int64: 19 }[base as string]
  if (whole !== undefined) return { whole, scale: 0 }
  return base === 'decimal' && precision !== undefined ? { whole: precision - scale!, scale: scale! } : null
}

function holds({ type }: Typed, { declared, facts }: FieldFacts): boolean {
  const { base } = partsOf(type)
  if (base === 'text' || base === 'json' || facts.kinds === 0) return true
  if ((facts.kinds & ~(takes[base] ?? 0)) !== 0) return false
  if (declaredOnly.has(base)) return declared === base
  if (base === 'float64') return declared?.startsWith('float') || (facts.double && (facts.kinds & Kind.text) === 0)
  const most = integerDigits[base]
  if (most !== undefined) return facts.whole <= most || (declared !== null && fitsWithin(declared, type))
  const digits = digitsOf(type)
  return digits === null || (facts.whole <= digits.whole && facts.scale <= digits.scale)
}

const order = ['int16', 'int32', 'int64']
const fitsWithin = (declared: ColumnType, type: ColumnType): boolean =>
  order.includes(declared) && order.indexOf(declared) <= order.indexOf(type)

function make(field: FieldFacts): Typed | null {
  const { declared, facts } = field
  if (declared === null) return inferred(field)
  const column = declaredColumn(declared, field)
  if (holds(column, field)) return column
  return typed(inferType(traitsOf(column.type).holds | facts.kinds) ?? 'text', field)
}

function inferred(field: FieldFacts): Typed | null {
  const type = inferType(field.facts.kinds)
  return type === null ? null : typed(type, field)
}

function declaredColumn(declared: ColumnType, { facts }: FieldFacts): Typed {
  const { base, precision, scale, list } = partsOf(declared)
  if (list) return plain('json')
  if (base !== 'decimal') return plain(declared)
  // Without limits: 18 digits after the point hold nearly all values.
  if (precision === undefined) return roomy({ whole: Math.max(facts.whole, 20), scale: Math.max(facts.scale, 18) })
  return decimal({ whole: precision - scale!, scale: scale! })
}

function typed(type: ColumnType, { facts }: FieldFacts): Typed {
  if (partsOf(type).base !== 'decimal') return plain(type)
  const column = roomy(facts)
  return column.type === 'text' && facts.double ? plain('float64') : column
}

function widen(have: TableColumn, field: FieldFacts): Typed {
  const { facts } = field
  const need = make(field)!
  const digits = digitsOf(have.type)
  if (digits !== null && (facts.kinds & ~numbers) === 0) {
    const both = { whole: Math.max(digits.whole, facts.whole), scale: Math.max(digits.scale, facts.scale) }
    return both.scale === 0 && both.whole <= 19 && need.type.startsWith('int')
      ? plain(commonType(have.type, need.type))
      : roomy(both)
  }
  if (need.type === 'json') return need
  const common = commonType(have.type, need.type)
  return common in names ? plain(common) : plain('text')
}

export const duckdbColumns: ColumnDialect = { make, holds, widen }

/** A column of an earlier run's table; null if no run makes such a one. */
export function readColumn(name: string, sql: string): TableColumn | null {
  const known = Object.entries(names).find(([, each]) => each === sql)
  if (known) return { name, type: known[0] as ColumnType, sql }
  const [, precision, scale] = /^DECIMAL\((\d+),(\d+)\)$/.exec(sql) ?? []
  return precision === undefined ? null : { name, type: `decimal(${Number(precision)},${Number(scale)})`, sql }
}

/** A cell of text as a value of the column. */
export function castCell(cell: string, { sql }: TableColumn, lossy: boolean): string {
  if (sql === 'VARCHAR') return cell
  const cast = lossy ? 'TRY_CAST' : 'CAST'
  if (sql !== 'BLOB') return `${cast}(${cell} AS ${sql})`
  // The contract writes bytes as \x and hex digits.
  return `CASE WHEN regexp_full_match(${cell}, '\\\\x([0-9a-fA-F]{2})*') THEN unhex(substr(${cell}, 3)) ELSE encode(${cell}) END`
}

/** A stored value as a wider column has it. */
export function convertStored(cell: string, from: TableColumn, to: TableColumn): string {
  if (to.sql === 'JSON') return `to_json(${cell})`
  if (to.sql !== 'VARCHAR') return `CAST(${cell} AS ${to.sql})`
  if (from.sql === 'BLOB') return `'\\x' || lower(hex(${cell}))`
  if (from.sql === names.timestamptz) return `CAST(${cell} AT TIME ZONE 'UTC' AS VARCHAR) || '+00'`
  // Zeros that only fill its scale say nothing about the value.
  if (from.sql.startsWith('DECIMAL') && !from.sql.endsWith(',0)'))
    return `rtrim(rtrim(CAST(${cell} AS VARCHAR), '0'), '.')`
  return `CAST(${cell} AS VARCHAR)`
}
