/**
 * A strict reader of JSON that keeps nothing: it says whether bytes are JSON, how deep they nest and where they end. What
 * comes out of a cell passes it before JSON.parse may see it, and pages of records pass it alone: building a million
 * objects only to throw them away would cost more than the cell spent on making them.
 *
 * The caller has already checked that the bytes are UTF-8.
 */
export const MAX_JSON_DEPTH = 64

const QUOTE = 0x22
const BACKSLASH = 0x5c
const NEWLINE = 0x0a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const COMMA = 0x2c
const COLON = 0x3a
const MINUS = 0x2d
const DOT = 0x2e

/** Bytes that a string may hold as they are. */
const PLAIN = new Uint8Array(256).fill(1)
PLAIN.fill(0, 0, 0x20)
PLAIN[QUOTE] = 0
PLAIN[BACKSLASH] = 0
const DIGIT = new Uint8Array(256)
DIGIT.fill(1, 0x30, 0x3a)
const HEX = new Uint8Array(256)
for (const character of '0123456789abcdefABCDEF') HEX[character.charCodeAt(0)] = 1
const ESCAPED = new Uint8Array(256)
for (const character of '"\\/bfnrt') ESCAPED[character.charCodeAt(0)] = 1

export class JsonScanError extends Error {}
/** JSON, but nested deeper than anybody reads. */
export class TooDeep extends JsonScanError {}

/** The offset just after the string that opens at `start`. */
function skipString(bytes: Uint8Array, start: number, end: number): number {
  let at = start + 1
  for (;;) {
    while (at < end && PLAIN[bytes[at]!] === 1) at++
    if (at >= end) throw new JsonScanError('a string is not closed')
    const byte = bytes[at]!
    if (byte === QUOTE) return at + 1
    if (byte !== BACKSLASH) throw new JsonScanError('a control character in a string')
    const escaped = bytes[at + 1]
    if (at + 1 >= end || escaped === undefined) throw new JsonScanError('a string is not closed')
    if (ESCAPED[escaped] === 1) at += 2
    else if (escaped === 0x75 && at + 5 < end && isHex(bytes, at + 2)) at += 6
    else throw new JsonScanError('a wrong escape in a string')
  }
}

function isHex(bytes: Uint8Array, at: number): boolean {
  return HEX[bytes[at]!] === 1 && HEX[bytes[at + 1]!] === 1 && HEX[bytes[at + 2]!] === 1 && HEX[bytes[at + 3]!] === 1
}

function skipDigits(bytes: Uint8Array, start: number, end: number): number {
  let at = start
  while (at < end && DIGIT[bytes[at]!] === 1) at++
  if (at === start) throw new JsonScanError('a number without digits')
  return at
}

function skipNumber(bytes: Uint8Array, start: number, end: number): number {
  let at = bytes[start] === MINUS ? start + 1 : start
  if (bytes[at] === 0x30 && at < end) at++
  else at = skipDigits(bytes, at, end)
  if (at < end && bytes[at] === DOT) at = skipDigits(bytes, at + 1, end)
  if (at < end && (bytes[at] === 0x65 || bytes[at] === 0x45)) {
    at++
    if (at < end && (bytes[at] === 0x2b || bytes[at] === MINUS)) at++
    at = skipDigits(bytes, at, end)
  }
  return at
}

const WORDS = [
  [0x74, Buffer.from('true')],
  [0x66, Buffer.from('false')],
  [0x6e, Buffer.from('null')],
] as const

function skipWord(bytes: Uint8Array, start: number, end: number): number {
  for (const [first, word] of WORDS) {
    if (bytes[start] !== first) continue
    if (start + word.length > end) break
    for (let index = 1; index < word.length; index++) {
      if (bytes[start + index] !== word[index]) throw new JsonScanError('an unknown word')
    }
    return start + word.length
  }
  throw new JsonScanError('a value is expected')
}

function skipSpace(bytes: Uint8Array, start: number, end: number): number {
  let at = start
  // A newline is no space here: it ends a record.
  while (at < end && (bytes[at] === 0x20 || bytes[at] === 0x09)) at++
  return at
}

/** A record inside of a preview sits in an array and beside its id. */
export const MAX_PREVIEW_DEPTH = MAX_JSON_DEPTH + 2
const isObject = new Uint8Array(MAX_PREVIEW_DEPTH + 1)

/**
 * The offset just after the one value that begins at `start`. Not recursive: what nests is counted on a small stack, and
 * more than `maxDepth` levels are refused.
 */
function skipValue(bytes: Uint8Array, start: number, end: number, maxDepth: number): number {
  let at = start
  let depth = 0
  for (;;) {
    // A value begins at `at`.
    at = skipSpace(bytes, at, end)
    if (at >= end) throw new JsonScanError('the text ends where a value is expected')
    const byte = bytes[at]!
    if (byte === QUOTE) at = skipString(bytes, at, end)
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (++depth > maxDepth) throw new TooDeep(`nested deeper than ${maxDepth} levels`)
      const object = byte === OPEN_BRACE
      isObject[depth] = object ? 1 : 0
      at = skipSpace(bytes, at + 1, end)
      if (bytes[at] !== (object ? CLOSE_BRACE : CLOSE_BRACKET) || at >= end) {
        if (object) at = skipKey(bytes, at, end)
        continue
      }
      at++
      depth--
    } else if (byte === MINUS || DIGIT[byte] === 1) at = skipNumber(bytes, at, end)
    else at = skipWord(bytes, at, end)

    // A value ended at `at`: close what ends with it.
    for (;;) {
      if (depth === 0) return at
      at = skipSpace(bytes, at, end)
      if (at >= end) throw new JsonScanError('the text ends inside an object or array')
      const next = bytes[at]!
      if (next === COMMA) {
        at++
        if (isObject[depth] === 1) at = skipKey(bytes, at, end)
        break
      }
      if (next !== (isObject[depth] === 1 ? CLOSE_BRACE : CLOSE_BRACKET)) {
        throw new JsonScanError('a comma or a closing bracket is expected')
      }
      at++
      depth--
    }
  }
}

function skipKey(bytes: Uint8Array, start: number, end: number): number {
  let at = skipSpace(bytes, start, end)
  if (at >= end || bytes[at] !== QUOTE) throw new JsonScanError('a key is expected')
  at = skipSpace(bytes, skipString(bytes, at, end), end)
  if (at >= end || bytes[at] !== COLON) throw new JsonScanError('a colon is expected')
  return at + 1
}

/** Throws unless the bytes are one JSON value of at most `maxDepth` levels. */
export function scanJson(bytes: Uint8Array, maxDepth: number = MAX_JSON_DEPTH): void {
  const at = skipSpace(bytes, skipValue(bytes, 0, bytes.length, Math.min(maxDepth, MAX_PREVIEW_DEPTH)), bytes.length)
  if (at !== bytes.length) throw new JsonScanError('more text after the value')
}

/** Counts records: throws unless each line is one JSON object and ends with a newline. */
export function countRecords(bytes: Uint8Array): number {
  const end = bytes.length
  let records = 0
  let at = 0
  while (at < end) {
    if (bytes[at] !== OPEN_BRACE) throw new JsonScanError('a record is not an object')
    at = skipValue(bytes, at, end, MAX_JSON_DEPTH)
    if (at >= end || bytes[at] !== NEWLINE) throw new JsonScanError('a record does not end with a newline')
    at++
    records++
  }
  return records
}
