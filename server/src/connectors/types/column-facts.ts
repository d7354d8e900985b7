/** What is known about a field of some records, and which types can hold it. */
import { countDigits, FLOAT64_DIGITS, fitsFloat64 } from './digits.ts'
import { kindOfString } from './iso-times.ts'
import { Kind, type Kinds } from './kinds.ts'

export interface ColumnFacts {
  name: string
  /** Of all values except null. */
  kinds: Kinds
  /** The maximum number of digits before and after the point. */
  whole: number
  scale: number
  /** Every number survives a round trip through a double. */
  double: boolean
}

/** What is known about some JSON lines. */
export interface LineFacts {
  columns: ColumnFacts[]
  /** The length of the longest line. */
  longest: number
  /**
   * Some line has nested values, a key twice, U+0000 or surrogates in escapes: parsers differ in what they make of these, so
   * the lines must not be given to another one.
   */
  odd: boolean
}

export const noLines: LineFacts = { columns: [], longest: 0, odd: false }

/** What is known about both. */
export function addFacts(one: LineFacts, other: LineFacts): LineFacts {
  return {
    columns: mergeFacts([...one.columns, ...other.columns]),
    longest: Math.max(one.longest, other.longest),
    odd: one.odd || other.odd,
  }
}

export function noFacts(name: string): ColumnFacts {
  return { name, kinds: 0, whole: 0, scale: 0, double: true }
}

const QUOTE = 34
const words: Record<number, Kinds> = { 110: 0, 116: Kind.boolean, 102: Kind.boolean, 123: Kind.nested, 91: Kind.nested }

interface Lines {
  page: Buffer
  /** The same, one character per byte. */
  text: string
}

/** Of a value that is valid JSON. */
export function noteValue(facts: ColumnFacts, { page, text }: Lines, start: number, end: number): void {
  const first = text.charCodeAt(start)
  if (first === QUOTE) {
    // A string with an escape is never a time, and nothing more can be learned about a column that holds other text.
    if ((facts.kinds & Kind.text) === 0) facts.kinds |= kindOfString(page, start + 1, end - 1)
    return
  }
  const kind = words[first]
  if (kind !== undefined) facts.kinds |= kind
  else noteNumber(facts, text.slice(start, end))
}

const PLAIN = /^-?(\d+)(?:\.(\d+))?$/
const LARGEST = 9223372036854775807n

export function noteNumber(facts: ColumnFacts, value: string): void {
  const plain = PLAIN.exec(value)
  const whole = plain?.[1]?.length ?? 0
  // Digits are counted as written: 2.50 keeps its zero.
  const digits = plain ? { whole, scale: plain[2]?.length ?? 0 } : (countDigits(value) ?? { whole: 0, scale: 0 })
  facts.kinds |= plain && plain[2] === undefined && fitsInt64(value, whole) ? Kind.integer : Kind.number
  facts.whole = Math.max(facts.whole, digits.whole)
  facts.scale = Math.max(facts.scale, digits.scale)
  facts.double &&= (plain !== null && value.length <= FLOAT64_DIGITS) || fitsFloat64(value)
}

function fitsInt64(value: string, digits: number): boolean {
  if (digits < 19) return true
  if (digits > 19) return false
  const exact = BigInt(value)
  return exact <= LARGEST && exact >= -LARGEST - 1n
}

/** One for each name, in the order of first appearance. */
export function mergeFacts(all: readonly ColumnFacts[]): ColumnFacts[] {
  const merged = new Map<string, ColumnFacts>()
  for (const facts of all) {
    const same = merged.get(facts.name)
    if (same === undefined) {
      merged.set(facts.name, { ...facts })
      continue
    }
    same.kinds |= facts.kinds
    same.whole = Math.max(same.whole, facts.whole)
    same.scale = Math.max(same.scale, facts.scale)
    same.double &&= facts.double
  }
  return [...merged.values()]
}
