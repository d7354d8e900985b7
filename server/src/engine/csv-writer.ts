/**
 * JSON lines as CSV, with every value's text as it came: numbers keep their digits, nested values stay JSON. Two passes:
 * one finds the columns (and, for Parquet, what type would hold each without a loss), one writes.
 */
import { ConnectorError } from '../connectors/contract.ts'
import { createKeyRing, decodeString, visitFields, visitLines } from '../json/fields.ts'

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

/** A table wider than this is none; it would also have to be kept in memory. */
const MOST_COLUMNS = 10_000

export function createColumnFinder(): ColumnFinder {
  const ring = createKeyRing()
  const found: ColumnFacts[] = []
  let longest = 0
  return {
    longest: () => longest,
    add(page) {
      const text = page.toString('latin1')
      visitLines(text, (start, end) => {
        longest = Math.max(longest, end - start)
        visitFields(text, start, end, ring, (key, valueStart, valueEnd) => {
          if (key === found.length)
            found.push({ name: decodeString(ring.raw[key]!), integer: true, double: true, boolean: true })
          const facts = found[key]!
          if (facts.integer || facts.double || facts.boolean) narrow(facts, text, valueStart, valueEnd)
        })
      })
      if (found.length <= MOST_COLUMNS) return
      throw new ConnectorError(
        'limit',
        `The records have more than ${MOST_COLUMNS} different fields, too many for columns; write jsonl.`,
      )
    },
    // One name can be written in several ways ("é" and "\\u00e9"): they are the same column.
    columns: () => mergeByName(found),
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
  const ring = createKeyRing()
  const places: number[] = []
  const cells: string[] = new Array(names.length).fill('')
  return (page) => {
    const text = page.toString('latin1')
    let out = ''
    visitLines(text, (start, end) => {
      cells.fill('')
      visitFields(text, start, end, ring, (key, valueStart, valueEnd) => {
        if (key === places.length) places.push(names.indexOf(decodeString(ring.raw[key]!)))
        cells[places[key]!] = writeCell(text, valueStart, valueEnd)
      })
      out += `${cells.join(',')}\n`
    })
    return Buffer.from(out, 'latin1')
  }
}

/** Null is an empty cell; an empty string is a quoted one, so that the two can be told apart. */
function writeCell(text: string, start: number, end: number): string {
  const first = text.charCodeAt(start)
  if (first === 34) {
    const inner = text.slice(start + 1, end - 1)
    return quoteCell(
      inner.includes('\\') ? Buffer.from(decodeString(text.slice(start, end))).toString('latin1') : inner,
    )
  }
  const raw = text.slice(start, end)
  if (first === 123 || first === 91) return quoteCell(raw)
  return raw === 'null' ? '' : raw
}

function quoteCell(text: string): string {
  if (text !== '' && !/[",\r\n]|^[\s#]|\s$/.test(text)) return text
  return `"${text.replaceAll('"', '""')}"`
}
