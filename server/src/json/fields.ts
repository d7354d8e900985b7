/**
 * Splits JSON lines into their top-level fields without parsing the values, so that a copied value stays the same byte
 * for byte: no digit of a large number is lost. Lines are processed as latin1, where one character is one byte and
 * everything JSON is made of is ASCII. Lines are not trusted: what is not an object is refused.
 */
import { BYTES, TABLES } from './bytes.ts'
import { MalformedJson } from './malformed.ts'

const { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COLON, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE } = BYTES
const { IS_LINE_BLANK } = TABLES

/**
 * The keys seen so far, as JSON text with their quotes, each with a number. Records nearly always have the same keys in
 * the same order, so the key after the last one is tried first; that saves slicing and looking up most of them.
 */
export interface KeyRing {
  raw: string[]
  numbers: Map<string, number>
}

export function createKeyRing(): KeyRing {
  return { raw: [], numbers: new Map() }
}

/** Receives the number of the key in the ring, and the position of the value in the text. */
export type VisitField = (key: number, valueStart: number, valueEnd: number) => void

/** Visits the fields of the object in the text between `start` and `end`. */
export function visitFields(text: string, start: number, end: number, ring: KeyRing, visit: VisitField): void {
  let at = skipSpace(text, start)
  if (text.charCodeAt(at) !== OPEN_BRACE) throw notAnObject(text, start, end)
  at = skipSpace(text, at + 1)
  let key = -1
  while (text.charCodeAt(at) !== CLOSE_BRACE) {
    const expected = ring.raw[key + 1]
    if (expected !== undefined && text.startsWith(expected, at)) {
      key++
      at += expected.length
    } else {
      const keyEnd = endOfString(text, at, end)
      key = numberOf(ring, text.slice(at, keyEnd))
      at = keyEnd
    }
    at = skipSpace(text, at)
    if (text.charCodeAt(at) !== COLON) throw notAnObject(text, start, end)
    const valueStart = skipSpace(text, at + 1)
    const valueEnd = endOfValue(text, valueStart, end)
    visit(key, valueStart, valueEnd)
    at = skipSpace(text, valueEnd)
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1)
    else if (text.charCodeAt(at) !== CLOSE_BRACE || at >= end) throw notAnObject(text, start, end)
  }
}

function numberOf(ring: KeyRing, raw: string): number {
  const known = ring.numbers.get(raw)
  if (known !== undefined) return known
  ring.numbers.set(raw, ring.raw.length)
  return ring.raw.push(raw) - 1
}

/** Calls back with the bounds of each line that is not empty. */
export function visitLines(text: string, visit: (start: number, end: number) => void): void {
  let start = 0
  while (start < text.length) {
    const newline = text.indexOf('\n', start)
    const end = newline === -1 ? text.length : newline
    if (end > start) visit(start, end)
    start = end + 1
  }
}

/** The text of a JSON string that was sliced out of a latin1 text. */
export function decodeString(rawString: string): string {
  return JSON.parse(Buffer.from(rawString, 'latin1').toString('utf8'))
}

function skipSpace(text: string, at: number): number {
  let index = at
  while (isSpace(text.charCodeAt(index))) index++
  return index
}

function isSpace(code: number): boolean {
  return IS_LINE_BLANK[code] === 1
}

/** The index after the closing quote of the string that starts here. */
function endOfString(text: string, at: number, end: number): number {
  if (text.charCodeAt(at) !== QUOTE) throw notAnObject(text, at, end)
  let quote = text.indexOf('"', at + 1)
  while (quote !== -1 && quote < end) {
    let slashes = 0
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return quote + 1
    quote = text.indexOf('"', quote + 1)
  }
  throw notAnObject(text, at, end)
}

function endOfValue(text: string, at: number, end: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return endOfString(text, at, end)
  const nested = first === OPEN_BRACE || first === OPEN_BRACKET
  let index = at
  let depth = 0
  while (index < end) {
    const code = text.charCodeAt(index)
    if (code === QUOTE) {
      index = endOfString(text, index, end)
      continue
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      if (depth === 0) break
      depth--
    } else if (code === COMMA && depth === 0) break
    index++
    if (nested && depth === 0) break
  }
  if (index === at || depth > 0) throw notAnObject(text, at, end)
  while (isSpace(text.charCodeAt(index - 1))) index--
  return index
}

function notAnObject(text: string, start: number, end: number): MalformedJson {
  const shown = Buffer.from(text.slice(start, Math.min(end, start + 80)), 'latin1').toString('utf8')
  return new MalformedJson(`The source returned a line that is not a JSON object: ${shown}`)
}
