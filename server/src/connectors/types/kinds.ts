/**
 * The kinds of JSON values and the column types that hold them without loss. A column is given the narrowest type that
 * holds every value seen, and is widened, never narrowed, when one arrives that does not fit:
 *
 *   int64 → decimal → text     date → timestamp → text     boolean, timestamptz → text
 *   any of them together with nested values → json
 *
 * Integers and decimals of any length keep every digit in decimal. A string is a time only in strict ISO 8601 with at
 * most six fractional digits; a field with and without zones becomes text, whichever came first. A field that was only null
 * has no type yet, and gets its column when it has one.
 */
import { type ColumnType, partsOf } from './column-types.ts'

export const Kind = {
  boolean: 1,
  integer: 2,
  number: 4,
  date: 8,
  timestamp: 16,
  timestamptz: 32,
  text: 64,
  nested: 128,
} as const

/** Kinds joined by `|`. */
export type Kinds = number

const everything = 255

/** The type that holds all the kinds, or null if only nulls were seen. */
export function inferType(kinds: Kinds): ColumnType | null {
  switch (kinds) {
    case 0:
      return null
    case Kind.boolean:
      return 'boolean'
    case Kind.integer:
      return 'int64'
    case Kind.number:
    case Kind.number | Kind.integer:
      return 'decimal'
    case Kind.date:
      return 'date'
    case Kind.timestamp:
    case Kind.timestamp | Kind.date:
      return 'timestamp'
    case Kind.timestamptz:
      return 'timestamptz'
    default:
      return kinds & Kind.nested ? 'json' : 'text'
  }
}

export interface TypeTraits {
  /** Kinds that a column of this type takes without loss. */
  accepts: Kinds
  /** Kinds that it represents when it has to be widened. */
  holds: Kinds
  /** How values are written: as text, as JSON, or as a list of texts. */
  form: 'text' | 'json' | 'list'
}

const integers = { accepts: Kind.integer, holds: Kind.integer, form: 'text' } as const
const numbers = { accepts: Kind.integer | Kind.number, holds: Kind.integer | Kind.number, form: 'text' } as const
/** Text takes everything. The other types get every value and decide themselves what to accept. */
const anyText = { accepts: everything, holds: Kind.text, form: 'text' } as const
const anyList = { accepts: everything, holds: Kind.nested, form: 'list' } as const

const traits: Partial<Record<string, TypeTraits>> = {
  boolean: { accepts: Kind.boolean, holds: Kind.boolean, form: 'text' },
  int16: integers,
  int32: integers,
  int64: integers,
  decimal: numbers,
  float32: numbers,
  float64: numbers,
  date: { accepts: Kind.date, holds: Kind.date, form: 'text' },
  timestamp: { accepts: Kind.timestamp | Kind.date, holds: Kind.timestamp, form: 'text' },
  timestamptz: { accepts: Kind.timestamptz, holds: Kind.timestamptz, form: 'text' },
  json: { accepts: everything, holds: Kind.nested, form: 'json' },
}

export function traitsOf(type: ColumnType): TypeTraits {
  const { base, list } = partsOf(type)
  return list ? anyList : (traits[base] ?? anyText)
}

/**
 * The type for a column of `type` that must also hold values of these kinds, none of which fit so far. Null if the type
 * itself has to refuse them.
 */
export function widenType(type: ColumnType, kinds: Kinds): ColumnType | null {
  const { accepts, holds } = traitsOf(type)
  const { base, precision } = partsOf(type)
  // For these, numbers are only reported if they are too large or have too many digits.
  const limited = base === 'int16' || base === 'int32' || precision !== undefined || base.startsWith('float')
  const outOfRange = limited && (kinds & (Kind.integer | Kind.number)) !== 0
  if ((kinds & ~accepts) === 0 && !outOfRange) return null
  const wider = inferType(holds | kinds)
  return wider === type ? null : wider
}
