/**
 * Scans one JSON object per line into the spans of its top-level values. The scanner accepts all valid JSON and refuses
 * what would break a row (raw control characters in strings, a record that ends early); numbers and literals inside
 * nested values are left to the database, which parses them anyway.
 */
import { BYTES, TABLES } from './bytes.ts'
import { MalformedJson } from './malformed.ts'

const {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  LOWER_F,
  LOWER_N,
  LOWER_T,
  MINUS,
  NEWLINE,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
} = BYTES
const { IS_LINE_BLANK, IS_PLAIN } = TABLES

export const ValueForm = { null: 0, string: 1, escaped: 2, boolean: 3, integer: 4, number: 5, nested: 6 } as const

export interface Spans {
  readonly keys: readonly string[]
  /** Keys as they appear between their quotes. */
  readonly keyBytes: readonly Buffer[]
  readonly byKey: Map<string, number>
  readonly start: Int32Array
  readonly end: Int32Array
  readonly form: Uint8Array
  /** The column that was last seen at the n-th position of a record. */
  readonly order: Int32Array
  /** The record has a key without a column. */
  unknown: boolean
}

export function createSpans(keys: readonly string[]): Spans {
  const size = keys.length
  return {
    keys,
    keyBytes: keys.map((key) => Buffer.from(JSON.stringify(key).slice(1, -1))),
    byKey: new Map(keys.map((key, index) => [key, index])),
    start: new Int32Array(size),
    end: new Int32Array(size),
    form: new Uint8Array(size),
    order: Int32Array.from({ length: size }, (_, index) => index),
    unknown: false,
  }
}

/** 1 for the bytes that numbers consist of. */
const numeric = new Uint8Array(256)
for (const character of '0123456789+-.eE')
  numeric[character.charCodeAt(0)] = character >= '0' && character <= '9' ? 1 : 2
numeric[MINUS] = 1

function malformed(page: Buffer, at: number, why: string): never {
  const from = page.lastIndexOf(NEWLINE, at - 1) + 1
  const to = page.indexOf(NEWLINE, at)
  const line = page.subarray(from, to < 0 ? page.length : to).toString('utf8')
  throw new MalformedJson(
    `A record is not a JSON object on one line (${why}): ${line.length > 200 ? `${line.slice(0, 200)}…` : line}`,
  )
}

function skipBlanks(page: Buffer, at: number): number {
  let byte = page[at]
  while (IS_LINE_BLANK[byte!] === 1) byte = page[++at]
  return at
}

/** The position after the closing quote; `at` is after the opening one. Negative if the string has escapes. */
function endOfString(page: Buffer, at: number): number {
  let escaped = false
  for (;;) {
    while (IS_PLAIN[page[at]!] === 1) at += 1
    const byte = page[at]
    if (byte === QUOTE) return escaped ? -(at + 1) : at + 1
    if (byte !== BACKSLASH)
      malformed(page, at, byte === undefined || byte === NEWLINE ? 'a string is not closed' : 'a raw control character')
    escaped = true
    at += 2
  }
}

/** The position after the bracket that closes the one at `at`. */
export function endOfNested(page: Buffer, at: number): number {
  let depth = 0
  for (;;) {
    const byte = page[at]
    if (byte === QUOTE) {
      at = Math.abs(endOfString(page, at + 1))
      continue
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth -= 1
      if (depth === 0) return at + 1
    } else if (byte === undefined || byte === NEWLINE) malformed(page, at - 1, 'a value is not closed')
    at += 1
  }
}

function startsWith(page: Buffer, at: number, expected: Buffer): boolean {
  for (let index = 0; index < expected.length; index += 1) if (page[at + index] !== expected[index]) return false
  return true
}

function matches(page: Buffer, at: number, key: Buffer): boolean {
  return page[at + key.length] === QUOTE && startsWith(page, at, key)
}

const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const NULL = Buffer.from('null')

let valueForm = 0
let valueStart = 0
let valueEnd = 0

/**
 * Scans the value at `at` into valueForm, valueStart and valueEnd (strings without their quotes); returns the position
 * after it.
 */
function scanValue(page: Buffer, at: number): number {
  const byte = page[at]!
  if (byte === QUOTE) {
    const after = endOfString(page, at + 1)
    valueStart = at + 1
    if (after < 0) {
      valueForm = ValueForm.escaped
      valueEnd = -after - 1
      return -after
    }
    valueForm = ValueForm.string
    valueEnd = after - 1
    return after
  }
  valueStart = at
  if (numeric[byte] === 1) {
    let form: number = ValueForm.integer
    let mark = 1
    while (mark !== 0) {
      if (mark === 2) form = ValueForm.number
      mark = numeric[page[++at]!] ?? 0
    }
    valueForm = form
    valueEnd = at
    return at
  }
  if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
    valueForm = ValueForm.nested
    valueEnd = endOfNested(page, at)
    return valueEnd
  }
  const word = byte === LOWER_T ? TRUE : byte === LOWER_F ? FALSE : byte === LOWER_N ? NULL : null
  if (word === null || !startsWith(page, at, word)) malformed(page, at, 'a value is missing')
  valueForm = word === NULL ? ValueForm.null : ValueForm.boolean
  valueEnd = at + word.length
  return valueEnd
}

/** The start of the next record, negated if the line was blank. */
export function scanRecord(page: Buffer, from: number, spans: Spans): number {
  const { form, start, end, order, keyBytes } = spans
  const size = keyBytes.length
  form.fill(0)
  spans.unknown = false
  let at = skipBlanks(page, from)
  if (page[at] === NEWLINE) return -(at + 1)
  if (page[at] === undefined) return -at
  if (page[at] !== OPEN_BRACE) malformed(page, at, 'it does not start with {')
  at = skipBlanks(page, at + 1)
  if (page[at] === CLOSE_BRACE) return endOfLine(page, at + 1)
  for (let place = 0; ; place += 1) {
    if (page[at] !== QUOTE) malformed(page, at, 'a key is missing')
    let column = place < size ? order[place]! : -1
    if (column >= 0 && matches(page, at + 1, keyBytes[column]!)) {
      at += keyBytes[column]!.length + 2
    } else {
      const after = Math.abs(endOfString(page, at + 1))
      column = spans.byKey.get(readKey(page, at + 1, after - 1)) ?? -1
      if (column < 0) spans.unknown = true
      else if (place < size) order[place] = column
      at = after
    }
    if (page[at] !== COLON) {
      at = skipBlanks(page, at)
      if (page[at] !== COLON) malformed(page, at, 'a colon is missing')
    }
    at += 1
    if (page[at] === SPACE) at = skipBlanks(page, at)
    at = scanValue(page, at)
    if (column >= 0) {
      form[column] = valueForm
      start[column] = valueStart
      end[column] = valueEnd
    }
    let byte = page[at]
    if (IS_LINE_BLANK[byte!] === 1) {
      at = skipBlanks(page, at)
      byte = page[at]
    }
    if (byte === CLOSE_BRACE) return endOfLine(page, at + 1)
    if (byte !== COMMA) malformed(page, Math.min(at, page.length - 1), 'a comma or } is missing')
    at += 1
    if (page[at] !== QUOTE) at = skipBlanks(page, at)
  }
}

function endOfLine(page: Buffer, at: number): number {
  if (page[at] === NEWLINE) return at + 1
  at = skipBlanks(page, at)
  if (page[at] === undefined) return at
  if (page[at] !== NEWLINE) malformed(page, at, 'something follows the record')
  return at + 1
}

function readKey(page: Buffer, start: number, end: number): string {
  const raw = page.toString('utf8', start, end)
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw
}

/** The fields of the record at `from` whose keys have no column. */
export function* unknownFields(page: Buffer, from: number, spans: Spans) {
  let at = skipBlanks(page, skipBlanks(page, from) + 1)
  for (;;) {
    const after = Math.abs(endOfString(page, at + 1))
    const key = readKey(page, at + 1, after - 1)
    at = skipBlanks(page, skipBlanks(page, after) + 1)
    at = skipBlanks(page, scanValue(page, at))
    if (!spans.byKey.has(key)) yield { key, form: valueForm, start: valueStart, end: valueEnd }
    if (page[at] !== COMMA) return
    at = skipBlanks(page, at + 1)
  }
}
