/**
 * The types that a column may widen to. It only ever widens to a type that holds every value of both without rounding or
 * truncating:
 *
 *   int16 → int32 → int64 → decimal       float32 → float64 → decimal       decimal(p,s) → more digits → decimal
 *   date → timestamp                       everything else → text
 *
 * An integer type becomes a float only if the float represents every integer of the type exactly. A time with a zone and one
 * without only have text in common: any other type would shift one of them by hours.
 */
import { type BaseType, type ColumnType, formatType, partsOf, type TypeParts } from './column-types.ts'

/** Digits that an integer type can have before the point. */
const integerDigits: Partial<Record<BaseType, number>> = { int16: 5, int32: 10, int64: 19 }
const integers: readonly BaseType[] = ['int16', 'int32', 'int64']
/** The narrowest float that holds every integer of the type; none holds every int64. */
const floatFor: Partial<Record<BaseType, BaseType>> = { int16: 'float32', int32: 'float64' }
const floats: readonly BaseType[] = ['float32', 'float64']

/** Few systems have fixed-precision decimals with more digits. */
const MAX_DIGITS = 38

/** The narrowest type that holds all values of both. */
export function commonType(one: ColumnType, other: ColumnType): ColumnType {
  if (one === other) return one
  const [left, right] = [partsOf(one), partsOf(other)]
  if (left.list !== right.list) return 'text'
  return formatType({ ...commonScalar(left, right), list: left.list })
}

function commonScalar(left: TypeParts, right: TypeParts): TypeParts {
  const list = false
  const bases = [left.base, right.base]
  if (bases.every(isNumber)) return commonNumber(left, right)
  if (left.base === right.base) return { base: left.base, list }
  if (bases.includes('date') && bases.includes('timestamp')) return { base: 'timestamp', list }
  return { base: 'text', list }
}

function isNumber(base: BaseType): boolean {
  return base === 'decimal' || integers.includes(base) || floats.includes(base)
}

function commonNumber(left: TypeParts, right: TypeParts): TypeParts {
  const list = false
  if (left.base === 'decimal' || right.base === 'decimal') return commonDecimal(left, right)
  const [first, second] = [left.base, right.base]
  if (integers.includes(first) && integers.includes(second))
    return { base: integers[Math.max(integers.indexOf(first), integers.indexOf(second))]!, list }
  const needed = [first, second].map((base) => (integers.includes(base) ? floatFor[base] : base))
  if (needed.includes(undefined)) return { base: 'decimal', list }
  return { base: needed.includes('float64') ? 'float64' : 'float32', list }
}

function commonDecimal(left: TypeParts, right: TypeParts): TypeParts {
  const [first, second] = [digitsOf(left), digitsOf(right)]
  if (first === null || second === null) return { base: 'decimal', list: false }
  const scale = Math.max(first.scale, second.scale)
  const precision = Math.max(first.whole, second.whole) + scale
  const given = Math.max(first.whole + first.scale, second.whole + second.scale)
  const most = Math.max(MAX_DIGITS, given)
  return precision > most ? { base: 'decimal', list: false } : { base: 'decimal', precision, scale, list: false }
}

/** Digits before and after the point; null if there is no limit. */
function digitsOf({ base, precision, scale }: TypeParts): { whole: number; scale: number } | null {
  const digits = integerDigits[base]
  if (digits !== undefined) return { whole: digits, scale: 0 }
  if (base !== 'decimal' || precision === undefined || scale === undefined) return null
  return { whole: precision - scale, scale }
}
