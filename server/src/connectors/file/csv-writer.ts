/**
 * JSON lines as CSV, with every value's text as it came: numbers keep their digits, nested values stay JSON. Two passes:
 * one finds the columns (and, for Parquet, what type would hold each without a loss), one writes.
 */
import { decodeString, visitFields, visitLines } from '../json-fields.ts'

/** What was seen of a column. Each flag is true as long as every value so far allows it. */
export interface ColumnFacts {
  name: string
  integer: boolean
  /** A number that a double gives back digit for digit. */
  double: boolean
  boolean: boolean
}

const INTEGER = /^-?\d{1,19}$/
const LARGEST = 9223372036854775807n
const NUMBER = /^-?\d+(\.\d+)?([eE][+-]?\d{1,2})?$/

export interface ColumnFinder {
  add(page: Buffer): void
  columns(): ColumnFacts[]
  /** The length of the longest line. */
  longest(): number
}

export function createColumnFinder(): ColumnFinder {
  const found = new Map<string, ColumnFacts>()
  let longest = 0
  return {
    longest: () => longest,
    add(page) {
      const text = page.toString('latin1')
      visitLines(text, (start, end) => {
        longest = Math.max(longest, end - start)
        visitFields(text, start, end, (rawKey, valueStart, valueEnd) => {
          let facts = found.get(rawKey)
          if (!facts) {
            facts = { name: decodeString(rawKey), integer: true, double: true, boolean: true }
            found.set(rawKey, facts)
          }
          if (facts.integer || facts.double || facts.boolean) narrow(facts, text, valueStart, valueEnd)
        })
      })
    },
    // One name can be written in several ways ("é" and "\u00e9"): they are the same column.
    columns: () => mergeByName([...found.values()]),
  }
}

function narrow(facts: ColumnFacts, text: string, start: number, end: number): void {
  const first = text[start]
  if (first === '"' || first === '{' || first === '[') {
    facts.integer = facts.double = facts.boolean = false
    return
  }
  const value = text.slice(start, end)
  if (value === 'null') return
  if (value === 'true' || value === 'false') facts.integer = facts.double = false
  else {
    facts.boolean = false
    facts.integer &&= fitsInt64(value)
    facts.double &&= NUMBER.test(value) && value.replace(/[eE].*|[-.]/g, '').replace(/^0+/, '').length <= 15
  }
}

function fitsInt64(value: string): boolean {
  if (!INTEGER.test(value) || value === '-0') return false
  if (value.length <= 18) return true
  const exact = BigInt(value)
  return exact <= LARGEST && exact >= -LARGEST - 1n
}

function mergeByName(all: ColumnFacts[]): ColumnFacts[] {
  const merged = new Map<string, ColumnFacts>()
  for (const facts of all) {
    const same = merged.get(facts.name)
    if (!same) merged.set(facts.name, { ...facts })
    else for (const flag of ['integer', 'double', 'boolean'] as const) same[flag] &&= facts[flag]
  }
  return [...merged.values()]
}

export function csvHeader(names: readonly string[]): Buffer {
  return Buffer.from(`${names.map((name) => quoteCell(name)).join(',')}\n`)
}

/** Turns pages of JSON lines into CSV rows with the columns in the order of `names`. */
export function createCsvWriter(names: readonly string[]): (page: Buffer) => Buffer {
  const places = new Map(names.map((name, place) => [name, place]))
  const placeOf = new Map<string, number>()
  const cells: string[] = new Array(names.length).fill('')
  return (page) => {
    const text = page.toString('latin1')
    let out = ''
    visitLines(text, (start, end) => {
      cells.fill('')
      visitFields(text, start, end, (rawKey, valueStart, valueEnd) => {
        let place = placeOf.get(rawKey)
        if (place === undefined) {
          place = places.get(decodeString(rawKey))!
          placeOf.set(rawKey, place)
        }
        cells[place] = writeCell(text, valueStart, valueEnd)
      })
      out += `${cells.join(',')}\n`
    })
    return Buffer.from(out, 'latin1')
  }
}

/** Null is an empty cell; an empty string is a quoted one, so that the two can be told apart. */
function writeCell(text: string, start: number, end: number): string {
  const raw = text.slice(start, end)
  if (raw === 'null') return ''
  if (raw[0] !== '"') return raw[0] === '{' || raw[0] === '[' ? quoteCell(raw) : raw
  const inner = raw.includes('\\') ? Buffer.from(decodeString(raw)).toString('latin1') : raw.slice(1, -1)
  return quoteCell(inner)
}

function quoteCell(text: string): string {
  if (text !== '' && !/[",\r\n]|^[\s#]|\s$/.test(text)) return text
  return `"${text.replaceAll('"', '""')}"`
}
