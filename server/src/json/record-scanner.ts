/**
 * One JSON object per line, scanned into the spans of its top-level values. The scanner accepts all valid JSON and
 * refuses what would break a row apart (raw control characters in strings, a record that ends early); numbers and
 * literals inside nested values are left to the database, which parses them anyway.
 */
import { MalformedJson } from './malformed.ts'

export const ValueForm = { null: 0, string: 1, escaped: 2, boolean: 3, integer: 4, number: 5, nested: 6 } as const

export interface Spans {
  readonly keys: readonly string[]
  /** Keys as they stand between their quotes. */
  readonly keyBytes: readonly Buffer[]
  readonly byKey: Map<string, number>
  readonly start: Int32Array
  readonly end: Int32Array
  readonly form: Uint8Array
  /** The column that was last seen at the n-th place of a record. */
  readonly order: Int32Array
  /** The record has a key that is no column. */
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

const QUOTE = 34
const BACKSLASH = 92
/** 1 where a string's run of ordinary bytes ends: quote, backslash, control characters. */
const stops = new Uint8Array(256)
for (let byte = 0; byte < 32; byte += 1) stops[byte] = 1
stops[QUOTE] = 1
stops[BACKSLASH] = 1
/** 1 for the bytes a number is made of. */
const numeric = new Uint8Array(256)
for (const character of '0123456789+-.eE')
  numeric[character.charCodeAt(0)] = character >= '0' && character <= '9' ? 1 : 2
numeric[45] = 1

function malformed(page: Buffer, at: number, why: string): never {
  const from = page.lastIndexOf(10, at - 1) + 1
  const to = page.indexOf(10, at)
  const line = page.subarray(from, to < 0 ? page.length : to).toString('utf8')
  throw new MalformedJson(
    `A record is not a JSON object on one line (${why}): ${line.length > 200 ? `${line.slice(0, 200)}…` : line}`,
  )
}

function skipBlanks(page: Buffer, at: number): number {
  let byte = page[at]
  while (byte === 32 || byte === 9 || byte === 13) byte = page[++at]
  return at
}

/** The place after the closing quote; `at` is after the opening one. Negative where the string has escapes. */
function endOfString(page: Buffer, at: number): number {
  let escaped = false
  for (;;) {
    while (stops[page[at]!] === 0) at += 1
    const byte = page[at]
    if (byte === QUOTE) return escaped ? -(at + 1) : at + 1
    if (byte !== BACKSLASH)
      malformed(page, at, byte === undefined || byte === 10 ? 'a string has no end' : 'a raw control character')
    escaped = true
    at += 2
  }
}

/** The place after the bracket that closes the one at `at`. */
export function endOfNested(page: Buffer, at: number): number {
  let depth = 0
  for (;;) {
    const byte = page[at]
    if (byte === QUOTE) {
      at = Math.abs(endOfString(page, at + 1))
      continue
    }
    if (byte === 123 || byte === 91) depth += 1
    else if (byte === 125 || byte === 93) {
      depth -= 1
      if (depth === 0) return at + 1
    } else if (byte === undefined || byte === 10) malformed(page, at - 1, 'a value has no end')
    at += 1
  }
}

function matches(page: Buffer, at: number, key: Buffer): boolean {
  const length = key.length
  if (page[at + length] !== QUOTE) return false
  for (let index = 0; index < length; index += 1) if (page[at + index] !== key[index]) return false
  return true
}

let valueForm = 0
let valueStart = 0
let valueEnd = 0

/** Scans the value at `at` into valueForm, valueStart and valueEnd (strings without their quotes); returns what follows. */
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
  if (byte === 123 || byte === 91) {
    valueForm = ValueForm.nested
    valueEnd = endOfNested(page, at)
    return valueEnd
  }
  if (byte === 110 && page[at + 1] === 117 && page[at + 2] === 108 && page[at + 3] === 108) {
    valueForm = ValueForm.null
    valueEnd = at + 4
  } else if (byte === 116 && page[at + 1] === 114 && page[at + 2] === 117 && page[at + 3] === 101) {
    valueForm = ValueForm.boolean
    valueEnd = at + 4
  } else if (
    byte === 102 &&
    page[at + 1] === 97 &&
    page[at + 2] === 108 &&
    page[at + 3] === 115 &&
    page[at + 4] === 101
  ) {
    valueForm = ValueForm.boolean
    valueEnd = at + 5
  } else malformed(page, at, 'a value is missing')
  return valueEnd
}

/** The begin of the next record. Minus that where the line was blank. */
export function scanRecord(page: Buffer, from: number, spans: Spans): number {
  const { form, start, end, order, keyBytes } = spans
  const size = keyBytes.length
  form.fill(0)
  spans.unknown = false
  let at = skipBlanks(page, from)
  if (page[at] === 10) return -(at + 1)
  if (page[at] === undefined) return -at
  if (page[at] !== 123) malformed(page, at, 'it does not begin with {')
  at = skipBlanks(page, at + 1)
  if (page[at] === 125) return endOfLine(page, at + 1)
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
    if (page[at] !== 58) {
      at = skipBlanks(page, at)
      if (page[at] !== 58) malformed(page, at, 'a colon is missing')
    }
    at += 1
    if (page[at] === 32) at = skipBlanks(page, at)
    at = scanValue(page, at)
    if (column >= 0) {
      form[column] = valueForm
      start[column] = valueStart
      end[column] = valueEnd
    }
    let byte = page[at]
    if (byte === 32 || byte === 9 || byte === 13) {
      at = skipBlanks(page, at)
      byte = page[at]
    }
    if (byte === 125) return endOfLine(page, at + 1)
    if (byte !== 44) malformed(page, Math.min(at, page.length - 1), 'a comma or } is missing')
    at += 1
    if (page[at] !== QUOTE) at = skipBlanks(page, at)
  }
}

function endOfLine(page: Buffer, at: number): number {
  if (page[at] === 10) return at + 1
  at = skipBlanks(page, at)
  if (page[at] === undefined) return at
  if (page[at] !== 10) malformed(page, at, 'something follows the record')
  return at + 1
}

function readKey(page: Buffer, start: number, end: number): string {
  const raw = page.toString('utf8', start, end)
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw
}

/** The fields of the record at `from` whose keys are no columns. */
export function* unknownFields(page: Buffer, from: number, spans: Spans) {
  let at = skipBlanks(page, skipBlanks(page, from) + 1)
  for (;;) {
    const after = Math.abs(endOfString(page, at + 1))
    const key = readKey(page, at + 1, after - 1)
    at = skipBlanks(page, skipBlanks(page, after) + 1)
    at = skipBlanks(page, scanValue(page, at))
    if (!spans.byKey.has(key)) yield { key, form: valueForm, start: valueStart, end: valueEnd }
    if (page[at] !== 44) return
    at = skipBlanks(page, at + 1)
  }
}
