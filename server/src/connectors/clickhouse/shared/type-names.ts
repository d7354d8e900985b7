/**
 * ClickHouse's type names: their parts, their neutral types, and which of them may appear in a statement. A type name from a
 * source becomes part of the SQL that creates a table elsewhere, so a malicious source must not be able to inject SQL
 * through it.
 */
import { type ColumnType, isColumnType } from '../../types/column-types.ts'

export const SYSTEM = 'clickhouse'

export interface ClickhouseType {
  /** `Int64`, `Array`, `DateTime64`. */
  base: string
  /** What stands in its parentheses, cut at commas. */
  args: string[]
  nullable: boolean
  /** Without Nullable and LowCardinality around it. */
  text: string
}

const wrappers = new Set(['Nullable', 'LowCardinality'])

export function parseClickhouseType(name: string): ClickhouseType {
  let text = name.trim()
  let nullable = false
  for (;;) {
    const { base, args } = splitType(text)
    if (wrappers.has(base) && args.length === 1) {
      nullable ||= base === 'Nullable'
      text = args[0]!
    } else if (base === 'SimpleAggregateFunction' && args.length >= 2) text = args.at(-1)!
    else return { base, args, nullable, text }
  }
}

function splitType(text: string): { base: string; args: string[] } {
  const open = text.indexOf('(')
  if (open < 0 || !text.endsWith(')')) return { base: text, args: [] }
  return { base: text.slice(0, open).trim(), args: splitArguments(text.slice(open + 1, -1)) }
}

/** At commas outside of quotes and parentheses. */
function splitArguments(text: string): string[] {
  const args: string[] = []
  let depth = 0
  let quote = ''
  let start = 0
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at]!
    if (quote !== '') {
      if (sign === '\\') at += 1
      else if (sign === quote) quote = ''
    } else if (sign === "'" || sign === '`' || sign === '"') quote = sign
    else if (sign === '(') depth += 1
    else if (sign === ')') depth -= 1
    else if (sign === ',' && depth === 0) {
      args.push(text.slice(start, at).trim())
      start = at + 1
    }
  }
  args.push(text.slice(start).trim())
  return args
}

const plain: Record<string, ColumnType> = {
  Bool: 'boolean',
  Int8: 'int16',
  Int16: 'int16',
  Int32: 'int32',
  Int64: 'int64',
  Int128: 'decimal(39,0)',
  Int256: 'decimal(77,0)',
  UInt8: 'int16',
  UInt16: 'int32',
  UInt32: 'int64',
  UInt64: 'decimal(20,0)',
  UInt128: 'decimal(39,0)',
  UInt256: 'decimal(78,0)',
  Float32: 'float32',
  BFloat16: 'float32',
  Float64: 'float64',
  Date: 'date',
  Date32: 'date',
  DateTime: 'timestamptz',
  UUID: 'uuid',
}

const nested =
  /^(Array|Tuple|Map|Nested|JSON|Object|Variant|Dynamic|Point|Ring|LineString|MultiLineString|Polygon|MultiPolygon|Geometry|QBit)$/

/** The contract's times end at microseconds. */
const MAX_FRACTION = 6

/** Null for states of aggregate functions, which have no text. */
export function neutralType({ base, args }: ClickhouseType): ColumnType | null {
  const known = plain[base]
  if (known !== undefined) return known
  if (base === 'Decimal') {
    const type = `decimal(${args[0]},${args[1] ?? 0})`
    return isColumnType(type) ? type : 'decimal'
  }
  if (base === 'DateTime64') return Number(args[0]) <= MAX_FRACTION ? 'timestamptz' : 'text'
  if (base === 'AggregateFunction') return null
  return nested.test(base) ? 'json' : 'text'
}

/** Neutral types that ClickHouse has no type of its own for are named in the comment of the column that holds them. */
const MARK = 'sluice:'

export function typeComment(type: ColumnType): string {
  return `${MARK}${type}`
}

/** Null if the comment is not ours. */
function commentedType(comment: string): ColumnType | null {
  if (!comment.startsWith(MARK)) return null
  const type = comment.slice(MARK.length)
  return isColumnType(type) ? type : null
}

/** What our own destination stores in a column of another type: its comment says so. */
export function meantType(own: ClickhouseType, comment: string): ColumnType | null {
  const meant = commentedType(comment)
  if (own.base === 'String')
    return meant !== null && ['bytes', 'json', 'time', 'interval'].includes(meant) ? meant : null
  return own.base === 'DateTime64' && meant === 'timestamp' ? meant : null
}
