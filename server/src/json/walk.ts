/**
 * Values at a path of a JSON document, without building the rest. What is passed on the way is validated, so a document
 * that was walked to its end is valid.
 */
import { BYTES } from './bytes.ts'
import type { Json } from './json.ts'
import { MalformedJson } from './malformed.ts'
import { skipString, skipToToken, skipValue } from './validator.ts'

const { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COLON, COMMA, OPEN_BRACE, OPEN_BRACKET } = BYTES

export interface Span {
  start: number
  /** After its last byte. */
  end: number
}

/** Receives where a value starts; returns where it ends, or STOP. */
type Visit = (start: number) => number

/** Ends a walk early: what follows is not looked at. */
const STOP = -1

const ANY = '*'

/**
 * Visits the values at the path: keys of objects, digits for the places of arrays, `*` for all of either. The whole document
 * is validated.
 */
export function walkDocument(bytes: Uint8Array, path: readonly string[], visit: Visit): void {
  const end = skipToToken(bytes, walkValue(bytes, skipToToken(bytes, 0), path, visit))
  if (end !== bytes.length) throw new MalformedJson('more text after the value')
}

/** The same inside of one value; returns its end. */
function walkValue(bytes: Uint8Array, start: number, path: readonly string[], visit: Visit): number {
  const [step, ...rest] = path
  if (step === undefined) return visit(start)
  const byte = bytes[start]
  if (byte === OPEN_BRACE)
    return visitMembers(bytes, start, (isKey, at) =>
      step === ANY || isKey(step) ? walkValue(bytes, at, rest, visit) : skipValue(bytes, at),
    )
  if (byte === OPEN_BRACKET)
    return visitItems(bytes, start, (at, index) =>
      step === ANY || String(index) === step ? walkValue(bytes, at, rest, visit) : skipValue(bytes, at),
    )
  return skipValue(bytes, start)
}

/** Visits the items of the array that starts here; returns its end. */
export function visitItems(bytes: Uint8Array, start: number, visit: (start: number, index: number) => number): number {
  let at = skipToToken(bytes, start + 1)
  if (bytes[at] === CLOSE_BRACKET) return at + 1
  for (let index = 0; ; index++) {
    const end = visit(at, index)
    if (end === STOP) return STOP
    at = skipToToken(bytes, end)
    const byte = bytes[at]
    if (byte === CLOSE_BRACKET) return at + 1
    if (byte !== COMMA) throw new MalformedJson('a comma or a closing bracket is expected')
    at = skipToToken(bytes, at + 1)
  }
}

/** Visits the members of the object that starts here; returns its end. Keys are compared only if they are asked for. */
function visitMembers(
  bytes: Uint8Array,
  start: number,
  visit: (isKey: (wanted: string) => boolean, valueStart: number) => number,
): number {
  let at = skipToToken(bytes, start + 1)
  if (bytes[at] === CLOSE_BRACE) return at + 1
  for (;;) {
    const keyStart = at
    const keyEnd = skipString(bytes, keyStart)
    at = skipToToken(bytes, keyEnd)
    if (bytes[at] !== COLON) throw new MalformedJson('a colon is expected')
    const end = visit((wanted) => isString(bytes, keyStart, keyEnd, wanted), skipToToken(bytes, at + 1))
    if (end === STOP) return STOP
    at = skipToToken(bytes, end)
    const byte = bytes[at]
    if (byte === CLOSE_BRACE) return at + 1
    if (byte !== COMMA) throw new MalformedJson('a comma or a closing bracket is expected')
    at = skipToToken(bytes, at + 1)
  }
}

/**
 * The first value at a path without `*`, or null. Stops there: what follows is not looked at. `known` are values whose end
 * was found before, by their start.
 */
export function findSpan(
  bytes: Uint8Array,
  start: number,
  path: readonly string[],
  known: ReadonlyMap<number, number> = NOTHING_KNOWN,
): Span | null {
  let at = skipToToken(bytes, start)
  for (const step of path) {
    const found = findStep(bytes, at, step, known)
    if (found === null) return null
    at = found
  }
  return { start: at, end: known.get(at) ?? skipValue(bytes, at) }
}

const NOTHING_KNOWN: ReadonlyMap<number, number> = new Map()

function findStep(bytes: Uint8Array, start: number, step: string, known: ReadonlyMap<number, number>): number | null {
  const byte = bytes[start]
  let found = -1
  const look = (is: boolean, at: number): number => {
    if (!is) return known.get(at) ?? skipValue(bytes, at)
    found = at
    return STOP
  }
  if (byte === OPEN_BRACE) visitMembers(bytes, start, (isKey, at) => look(isKey(step), at))
  else if (byte === OPEN_BRACKET) visitItems(bytes, start, (at, index) => look(String(index) === step, at))
  return found === -1 ? null : found
}

/** Whether the string, quotes included, is the wanted one. */
function isString(bytes: Uint8Array, start: number, end: number, wanted: string): boolean {
  const length = end - start - 2
  let same = length === wanted.length
  for (let index = 0; index < length; index++) {
    const byte = bytes[start + 1 + index]!
    if (byte === BACKSLASH || byte >= 0x80) return readString(bytes, start, end) === wanted
    if (same && byte !== wanted.charCodeAt(index)) same = false
  }
  return same
}

function readString(bytes: Uint8Array, start: number, end: number): string {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8')) as string
}

export function parseSpan(bytes: Buffer, { start, end }: Span): Json {
  return JSON.parse(bytes.toString('utf8', start, end)) as Json
}
