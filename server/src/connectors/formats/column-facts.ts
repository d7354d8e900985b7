/**
 * Collects facts about the fields of JSON lines: their names in order of first appearance, and which types can hold
 * them.
 */

import { createKeyRing, decodeString, visitFields, visitLines } from '../../json/fields.ts'
import { ConnectorError } from '../contract.ts'
import { countDigits, FLOAT64_DIGITS, fitsFloat64 } from '../types/digits.ts'
import { kindOfString } from '../types/iso-times.ts'
import { Kind, type Kinds } from '../types/kinds.ts'

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

interface ColumnFinder {
  add(page: Buffer): void
  columns(): ColumnFacts[]
  /** The length of the longest line. */
  longest(): number
}

/** Columns are held in memory, and wider tables are of no practical use. */
const MAX_COLUMNS = 10_000

export function createColumnFinder(): ColumnFinder {
  const ring = createKeyRing()
  const found: ColumnFacts[] = []
  let longest = 0
  return {
    longest: () => longest,
    add(page) {
      const text = page.toString('latin1')
      const lines = { page, text }
      visitLines(text, (start, end) => {
        longest = Math.max(longest, end - start)
        visitFields(text, start, end, ring, (key, valueStart, valueEnd) => {
          if (key === found.length) found.push(noFacts(decodeString(ring.raw[key]!)))
          note(found[key]!, lines, valueStart, valueEnd)
        })
      })
      if (found.length <= MAX_COLUMNS) return
      throw new ConnectorError(
        'limit',
        `The records have more than ${MAX_COLUMNS} different fields, too many for columns; write jsonl.`,
      )
    },
    // One name can be written in several ways ("é" and "\\u00e9"): they are the same column.
    columns: () => mergeByName(found),
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

function note(facts: ColumnFacts, { page, text }: Lines, start: number, end: number): void {
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

function noteNumber(facts: ColumnFacts, value: string): void {
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

function mergeByName(all: ColumnFacts[]): ColumnFacts[] {
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
