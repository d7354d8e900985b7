/**
 * Cuts JSON lines into their top fields without parsing the values, so that whoever copies a value keeps it byte for byte:
 * no digit of a large number is lost. Lines are looked at as latin1, where one character is one byte and everything JSON
 * is made of is ASCII. It trusts no line further than it must: what is not an object in form is refused.
 */
import { ConnectorError } from './contract.ts'

/** Gets the key as JSON text, with its quotes, and where the value lies in the text. */
export type VisitField = (rawKey: string, valueStart: number, valueEnd: number) => void

/** Visits the fields of the object that the text holds between `start` and `end`. */
export function visitFields(text: string, start: number, end: number, visit: VisitField): void {
  let at = skipSpace(text, start)
  if (text[at] !== '{') throw notAnObject(text, start, end)
  at = skipSpace(text, at + 1)
  while (text[at] !== '}') {
    const keyEnd = endOfString(text, at, end)
    const rawKey = text.slice(at, keyEnd)
    at = skipSpace(text, keyEnd)
    if (text[at] !== ':') throw notAnObject(text, start, end)
    const valueStart = skipSpace(text, at + 1)
    const valueEnd = endOfValue(text, valueStart, end)
    visit(rawKey, valueStart, valueEnd)
    at = skipSpace(text, valueEnd)
    if (text[at] === ',') at = skipSpace(text, at + 1)
    else if (text[at] !== '}' || at >= end) throw notAnObject(text, start, end)
  }
}

/** Calls back with the limits of each line that is not empty. */
export function visitLines(text: string, visit: (start: number, end: number) => void): void {
  let start = 0
  while (start < text.length) {
    const newline = text.indexOf('\n', start)
    const end = newline === -1 ? text.length : newline
    if (end > start) visit(start, end)
    start = end + 1
  }
}

/** The text of a JSON string that was cut out of a latin1 text. */
export function decodeString(rawString: string): string {
  return JSON.parse(Buffer.from(rawString, 'latin1').toString('utf8'))
}

function skipSpace(text: string, at: number): number {
  let index = at
  while (text[index] === ' ' || text[index] === '\t' || text[index] === '\r') index++
  return index
}

/** The index behind the closing quote of the string that begins here. */
function endOfString(text: string, at: number, end: number): number {
  if (text[at] !== '"') throw notAnObject(text, at, end)
  let quote = text.indexOf('"', at + 1)
  while (quote !== -1 && quote < end) {
    let slashes = 0
    while (text[quote - 1 - slashes] === '\\') slashes++
    if (slashes % 2 === 0) return quote + 1
    quote = text.indexOf('"', quote + 1)
  }
  throw notAnObject(text, at, end)
}

function endOfValue(text: string, at: number, end: number): number {
  const first = text[at]
  if (first === '"') return endOfString(text, at, end)
  const nested = first === '{' || first === '['
  let index = at
  let depth = 0
  while (index < end) {
    const character = text[index]
    if (character === '"') {
      index = endOfString(text, index, end)
      continue
    }
    if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      if (depth === 0) break
      depth--
    } else if (character === ',' && depth === 0) break
    index++
    if (nested && depth === 0) break
  }
  if (index === at || depth > 0) throw notAnObject(text, at, end)
  while (' \t\r'.includes(text[index - 1]!)) index--
  return index
}

function notAnObject(text: string, start: number, end: number): ConnectorError {
  const shown = Buffer.from(text.slice(start, Math.min(end, start + 80)), 'latin1').toString('utf8')
  return new ConnectorError('source', `The source gave a line that is no JSON object: ${shown}`)
}
