/**
 * JSON values as fields of tab-separated text. Only tabs, newlines and backslashes have a meaning there; JSON's \b \f
 * \n \r \t \\ are written the same way, so most escapes are copied unchanged.
 */
import { escapeField } from './tsv.ts'

export interface Output {
  bytes: Buffer
  used: number
  /** Characters that databases cannot store and that became U+FFFD. */
  replaced: number
  reserve(size: number): void
  /** The bytes so far; the output starts over. */
  take(): Buffer
  /**
   * Takes back a buffer that `take` returned, once it is no longer read: allocating megabytes for every page keeps the
   * garbage collector busy.
   */
  recycle(taken: Buffer): void
}

/** Room for pending data plus a whole page. */
const SIZE = 768 * 1024
const SPARES = 8

export function createOutput(): Output {
  const spares: Buffer[] = []
  return {
    bytes: Buffer.allocUnsafeSlow(SIZE),
    used: 0,
    replaced: 0,
    reserve(size) {
      if (this.used + size <= this.bytes.length) return
      const larger = Buffer.allocUnsafeSlow(Math.max(this.bytes.length * 2, this.used + size))
      this.bytes.copy(larger, 0, 0, this.used)
      this.bytes = larger
    },
    take() {
      const taken = this.bytes.subarray(0, this.used)
      this.bytes = spares.pop() ?? Buffer.allocUnsafeSlow(SIZE)
      this.used = 0
      return taken
    },
    recycle(taken) {
      const { buffer } = taken
      if (buffer.byteLength === SIZE && spares.length < SPARES) spares.push(Buffer.from(buffer as ArrayBuffer))
    },
  }
}

const BACKSLASH = 92
/** Up to this length a loop is faster than a call into the runtime. */
export const LOOP_BYTES = 64

/** The content of a JSON string with escapes. */
export function writeString(output: Output, page: Buffer, start: number, end: number): void {
  const { bytes } = output
  let at = start
  while (at < end) {
    const byte = page[at]!
    if (byte !== BACKSLASH) {
      bytes[output.used++] = byte
      at += 1
      continue
    }
    const letter = page[at + 1]!
    if (letter === 117) {
      at = writeCodePoint(output, page, at, end)
      continue
    }
    // \" and \/ are written plain, the other escapes are the same here.
    if (letter !== 34 && letter !== 47) bytes[output.used++] = BACKSLASH
    bytes[output.used++] = letter
    at += 2
  }
}

function writeCodePoint(output: Output, page: Buffer, at: number, end: number): number {
  const { code, length } = readCodePoint(output, page, at, end)
  const short = controlEscapes[code]
  if (short !== undefined) {
    output.bytes[output.used++] = BACKSLASH
    output.bytes[output.used++] = short
  } else output.used += output.bytes.write(String.fromCodePoint(code), output.used)
  return at + length
}

/** Control characters that would end a field or a row, by the letter that escapes them. */
const controlEscapes: Record<number, number> = { 8: 98, 9: 116, 10: 110, 11: 118, 12: 102, 13: 114, 92: 92 }

function readCodePoint(output: Output, page: Buffer, at: number, end: number): { code: number; length: number } {
  const high = readHex(page, at + 2)
  if (high >= 0xd800 && high <= 0xdbff && at + 12 <= end && page[at + 6] === BACKSLASH && page[at + 7] === 117) {
    const low = readHex(page, at + 8)
    if (low >= 0xdc00 && low <= 0xdfff) return { code: 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), length: 12 }
  }
  if (high !== 0 && !(high >= 0xd800 && high <= 0xdfff)) return { code: high, length: 6 }
  output.replaced += 1
  return { code: 0xfffd, length: 6 }
}

function readHex(page: Buffer, at: number): number {
  return Number.parseInt(page.toString('latin1', at, at + 4), 16)
}

/** JSON unchanged, for json and jsonb columns: backslashes are doubled, and escapes that jsonb rejects are replaced. */
export function writeJson(output: Output, page: Buffer, start: number, end: number): void {
  const { bytes } = output
  let to = output.used
  let at = start
  while (at < end) {
    const byte = page[at]!
    if (byte > 13 && byte !== BACKSLASH) {
      bytes[to++] = byte
      at += 1
    } else if (byte === BACKSLASH) {
      bytes[to++] = BACKSLASH
      bytes[to++] = BACKSLASH
      if (page[at + 1] === 117) {
        output.used = to
        at = writeJsonEscape(output, page, at, end)
        to = output.used
      } else {
        // A backslash after a backslash has to be doubled as well.
        if (page[at + 1] === BACKSLASH) bytes[to++] = BACKSLASH
        bytes[to++] = page[at + 1]!
        at += 2
      }
    } else {
      // Whitespace between the parts of a nested value.
      bytes[to++] = 32
      at += 1
    }
  }
  output.used = to
}

function writeJsonEscape(output: Output, page: Buffer, at: number, end: number): number {
  const before = output.replaced
  const { length } = readCodePoint(output, page, at, end)
  if (output.replaced > before) output.used += output.bytes.write('ufffd', output.used)
  else {
    // The second half of a pair has a backslash to double, too.
    for (let from = at + 1; from < at + length; from += 1) {
      const byte = page[from]!
      if (byte === BACKSLASH) output.bytes[output.used++] = BACKSLASH
      output.bytes[output.used++] = byte
    }
  }
  return at + length
}

/**
 * A JSON array as a list, `{1,NULL,"b c"}`. Strings are always quoted, so that `"null"` stays text; nested lists stay
 * lists, and objects become the text of their JSON.
 */
export function writeList(output: Output, page: Buffer, start: number, end: number): void {
  const value: unknown = JSON.parse(page.toString('utf8', start, end), keepDigits as Reviver)
  const text = formatList(value).replace(UNSTORABLE, () => {
    output.replaced += 1
    return '\ufffd'
  })
  const field = escapeField(text)
  output.reserve(Buffer.byteLength(field))
  output.used += output.bytes.write(field, output.used)
}

/** What PostgreSQL and others cannot store: U+0000 and lone surrogates. */
const UNSTORABLE = /\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** A number as it was written. */
class Digits {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** TypeScript does not know the third argument yet. */
type Reviver = (key: string, value: unknown) => unknown

function keepDigits(_key: string, value: unknown, context: { source: string }): unknown {
  return typeof value === 'number' ? new Digits(context.source) : value
}

function formatList(value: unknown): string {
  if (value === null) return 'NULL'
  if (value instanceof Digits) return value.text
  if (typeof value === 'boolean') return value ? 't' : 'f'
  if (Array.isArray(value)) return `{${value.map(formatList).join(',')}}`
  const text = typeof value === 'string' ? value : formatJson(value)
  return `"${text.replace(/[\\"]/g, '\\$&')}"`
}

function formatJson(value: unknown): string {
  if (value instanceof Digits) return value.text
  if (Array.isArray(value)) return `[${value.map(formatJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, field]) => `${JSON.stringify(key)}:${formatJson(field)}`)
    .join(',')}}`
}
