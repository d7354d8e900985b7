/**
 * The kinds of JSON values and the column types that hold them without loss. A column is given the narrowest type that
 * holds every value seen, and is widened, never narrowed, when one arrives that does not fit:
 *
 *   int8 → numeric → text      boolean, date, timestamp, timestamptz → text      any of them → jsonb beside nested values
 *
 * Integers and decimals of any length keep every digit in numeric. A string is a time only in strict ISO 8601 with at
 * most six digits of a second. What has been seen only as null has no type yet, and gets its column when it has one.
 */
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

/** The type that holds all of the kinds, or null where only nulls were seen. */
export function inferType(kinds: Kinds): string | null {
  switch (kinds) {
    case 0:
      return null
    case Kind.boolean:
      return 'boolean'
    case Kind.integer:
      return 'int8'
    case Kind.number:
    case Kind.number | Kind.integer:
      return 'numeric'
    case Kind.date:
      return 'date'
    case Kind.timestamp:
      return 'timestamp'
    case Kind.timestamptz:
      return 'timestamptz'
    default:
      return kinds & Kind.nested ? 'jsonb' : 'text'
  }
}

interface TypeTraits {
  /** What a column of this type takes without loss. */
  accepts: Kinds
  /** What it stands for when it has to be widened. */
  holds: Kinds
  form: 'text' | 'json'
}

const integers = { accepts: Kind.integer, holds: Kind.integer, form: 'text' } as const
const numbers = { accepts: Kind.integer | Kind.number, holds: Kind.integer | Kind.number, form: 'text' } as const
const anyText = { accepts: everything, holds: Kind.text, form: 'text' } as const
const anyJson = { accepts: everything, holds: Kind.nested, form: 'json' } as const

const traits: Record<string, TypeTraits> = {
  boolean: { accepts: Kind.boolean, holds: Kind.boolean, form: 'text' },
  int2: integers,
  int4: integers,
  int8: integers,
  numeric: numbers,
  float4: numbers,
  float8: numbers,
  date: { accepts: Kind.date, holds: Kind.date, form: 'text' },
  timestamp: { accepts: Kind.timestamp | Kind.date, holds: Kind.timestamp, form: 'text' },
  timestamptz: { accepts: Kind.timestamptz, holds: Kind.timestamptz, form: 'text' },
  text: anyText,
  json: anyJson,
  jsonb: anyJson,
}

const aliases: Record<string, string> = {
  bool: 'boolean',
  smallint: 'int2',
  integer: 'int4',
  int: 'int4',
  bigint: 'int8',
  decimal: 'numeric',
  real: 'float4',
  'double precision': 'float8',
  'timestamp without time zone': 'timestamp',
  'timestamp with time zone': 'timestamptz',
  'character varying': 'text',
  varchar: 'text',
}

/** One name per type: `bigint` and `int8` are the same. Types with a length or a scale stay as they are. */
export function normalizeType(type: string): string {
  const name = type.trim()
  return aliases[name.toLowerCase()] ?? name
}

/** Types that are not ours to judge, such as uuid or numeric(10,2), are handed every value and decide themselves. */
export function traitsOf(type: string): TypeTraits {
  return traits[normalizeType(type)] ?? anyText
}

/** The type for a column of `type` once the kinds must fit too. Null where it fits already. */
export function widenType(type: string, kinds: Kinds): string | null {
  const { accepts, holds } = traitsOf(type)
  const name = normalizeType(type)
  // Integers are reported for these two only when they are too large for them.
  const outOfRange = (name === 'int2' || name === 'int4') && kinds & Kind.integer
  if ((kinds & ~accepts) === 0 && !outOfRange) return null
  return inferType(holds | kinds)
}

/** Numbers by how much they hold: a declared type is widened along this line only. */
const numberLadder = ['int2', 'int4', 'int8', 'numeric']

/**
 * The type that a column of `type` needs before values declared as `declared` fit, or null. Unlike values that were
 * looked at, a declaration widens within a family only: a text that holds uuids still goes into a uuid column.
 */
export function widenDeclared(type: string, declared: string): string | null {
  const from = normalizeType(type)
  const to = normalizeType(declared)
  if (from === to) return null
  const base = (name: string) => /^[a-z0-9]+/.exec(name)?.[0] ?? name
  const fromStep = numberLadder.indexOf(base(from))
  const toStep = numberLadder.indexOf(base(to))
  if (fromStep >= 0 && toStep > fromStep) return to === 'numeric' || base(to) !== 'numeric' ? to : 'numeric'
  if (base(from) === 'numeric' && base(to) === 'numeric' && from !== 'numeric')
    return holdsScale(from, to) ? null : 'numeric'
  if (from === 'float4' && to === 'float8') return 'float8'
  if (/^(character|varchar|bpchar)/.test(from) && lengthOf(to) > lengthOf(from)) return 'text'
  return null
}

function holdsScale(from: string, to: string): boolean {
  const [precision = 0, scale = 0] = sizesOf(from)
  if (to === 'numeric') return false
  const [wanted = 0, wantedScale = 0] = sizesOf(to)
  return scale >= wantedScale && precision - scale >= wanted - wantedScale
}

function sizesOf(type: string): number[] {
  return (/\((.*)\)/.exec(type)?.[1] ?? '').split(',').filter(Boolean).map(Number)
}

function lengthOf(type: string): number {
  if (type === 'text') return Number.POSITIVE_INFINITY
  if (!/^(character|varchar|bpchar)/.test(type)) return -1
  return sizesOf(type)[0] ?? Number.POSITIVE_INFINITY
}

/** Whether a column of type `from` holds more as `to`. Two that merely differ are not: others may have widened it already. */
export function isWidening(from: string, to: string): boolean {
  if (from === to || from === 'jsonb' || from === 'json') return false
  return to === 'jsonb' || (to === 'text' && from !== 'text') || widenDeclared(from, to) === to
}
