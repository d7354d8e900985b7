/**
 * Surveys JSON lines: checks that each is an object, and collects facts about its fields, in one pass over the bytes. Most
 * lines repeat the keys of the one before in the same order and hold nothing unusual; those are scanned here, with nothing
 * allocated. A line that needs a closer look (numbers with exponents, blanks in odd places, deep nesting) is left to the
 * general code of fields.ts.
 */
import { BYTES, TABLES } from '../../json/bytes.ts'
import { createKeyRing, decodeString, type KeyRing, visitFields } from '../../json/fields.ts'
import { endOfNestedValue } from '../../json/validator.ts'
import { ConnectorError } from '../contract.ts'
import { type ColumnFacts, type LineFacts, mergeFacts, noFacts, noteNumber, noteValue } from '../types/column-facts.ts'
import { FLOAT64_DIGITS } from '../types/digits.ts'
import { kindOfString } from '../types/iso-times.ts'
import { Kind } from '../types/kinds.ts'

const {
  BACKSLASH,
  CLOSE_BRACE,
  COLON,
  COMMA,
  LOWER_F,
  LOWER_N,
  LOWER_T,
  LOWER_U,
  MINUS,
  NEWLINE,
  OPEN_BRACE,
  OPEN_BRACKET,
  POINT,
  QUOTE,
  SPACE,
  ZERO,
} = BYTES
const { IS_DIGIT, IS_ESCAPE, IS_HEX, IS_PLAIN } = TABLES

/** Columns are held in memory, and wider tables are of no practical use. */
const MAX_COLUMNS = 10_000
/** Not the start of a line. */
const UNUSUAL = -1

interface Field extends ColumnFacts {
  /** The key as it is written, with its quotes and colon. */
  head: Buffer
  /** The last line that had it. */
  line: number
}

export class LineSurvey {
  readonly #fields: Field[] = []
  readonly #byKey = new Map<string, Field>()
  /** The field that was last seen at the n-th position of a line. */
  readonly #order: Field[] = []
  #ring: KeyRing = createKeyRing()
  #line = 0
  #longest = 0
  #odd = false
  /** Where the value ends that was scanned last. */
  #end = 0

  /** The start of the next line, or -1 if this one needs a closer look: `addLine` gives it. */
  scanLine(page: Buffer, from: number): number {
    if (page[from] !== OPEN_BRACE) return UNUSUAL
    this.#line += 1
    let at = from + 1
    for (let place = 0; ; place += 1) {
      const field = this.#findField(page, at, place)
      if (field === null) return UNUSUAL
      at += field.head.length
      if (field.line === this.#line) this.#odd = true
      field.line = this.#line
      if (page[at] === SPACE) at += 1
      if (!this.#noteValue(field, page, at)) return UNUSUAL
      at = this.#end
      const byte = page[at]
      if (byte === COMMA) {
        at += page[at + 1] === SPACE ? 2 : 1
        continue
      }
      if (byte !== CLOSE_BRACE || page[at + 1] !== NEWLINE) return UNUSUAL
      if (at - from >= this.#longest) this.#longest = at - from + 1
      return at + 2
    }
  }

  /** Adds any line that is known to be an object. */
  addLine(page: Buffer, start: number, end: number): void {
    const text = page.toString('latin1', start, end)
    const lines = { page: page.subarray(start, end), text }
    this.#line += 1
    // Keys that are not used twice must not fill memory.
    if (this.#ring.raw.length > MAX_COLUMNS) this.#ring = createKeyRing()
    visitFields(text, 0, text.length, this.#ring, (key, valueStart, valueEnd) => {
      const raw = this.#ring.raw[key]!
      const field = this.#byKey.get(raw) ?? this.#addField(raw)
      if (field.line === this.#line) this.#odd = true
      field.line = this.#line
      noteValue(field, lines, valueStart, valueEnd)
    })
    if (/\\u(?:0000|[dD][89a-fA-F])/.test(text)) this.#odd = true
    this.#longest = Math.max(this.#longest, end - start)
  }

  /** The facts of the lines since the last call. */
  take(): LineFacts {
    const columns = this.#fields.filter(({ line }) => line > 0).map(({ head: _, line: __, ...facts }) => facts)
    // One name can be written in several ways ("é" and "\u00e9"): they are the same column.
    const facts = { columns: mergeFacts(columns), longest: this.#longest, odd: this.#odd }
    if (facts.columns.length < columns.length) facts.odd = true
    for (const field of this.#fields) Object.assign(field, noFacts(field.name), { line: 0 })
    this.#line = 0
    this.#longest = 0
    this.#odd = false
    return facts
  }

  /** Null if there is no key at this place. */
  #findField(page: Buffer, at: number, place: number): Field | null {
    const likely = this.#order[place]
    if (likely !== undefined && startsWith(page, at, likely.head)) return likely
    if (page[at] !== QUOTE) return null
    let end = at + 1
    while (IS_PLAIN[page[end]!] === 1) end += 1
    if (page[end] !== QUOTE || page[end + 1] !== COLON) return null
    const raw = page.toString('latin1', at, end + 1)
    const field = this.#byKey.get(raw) ?? this.#addField(raw)
    this.#order[place] = field
    return field
  }

  #addField(raw: string): Field {
    if (this.#fields.length >= MAX_COLUMNS)
      throw new ConnectorError(
        'limit',
        `The records have more than ${MAX_COLUMNS} different fields, too many for columns; write jsonl.`,
      )
    const field: Field = { ...noFacts(decodeString(raw)), head: Buffer.from(`${raw}:`, 'latin1'), line: 0 }
    this.#fields.push(field)
    this.#byKey.set(raw, field)
    return field
  }

  /** False: the value is not one of the usual ones. */
  #noteValue(field: Field, page: Buffer, at: number): boolean {
    const byte = page[at]!
    if (byte === QUOTE) return this.#noteString(field, page, at + 1)
    if (byte === MINUS || IS_DIGIT[byte] === 1) return this.#noteNumber(field, page, at)
    if (byte === LOWER_N) {
      this.#end = at + 4
      return page[at + 1] === LOWER_U && page[at + 2] === 108 && page[at + 3] === 108
    }
    if (byte === LOWER_T || byte === LOWER_F) {
      const word = byte === LOWER_T ? TRUE : FALSE
      field.kinds |= Kind.boolean
      this.#end = at + word.length
      return startsWith(page, at, word)
    }
    if (byte !== OPEN_BRACE && byte !== OPEN_BRACKET) return false
    field.kinds |= Kind.nested
    this.#end = endOfNestedValue(page, at)
    // What is inside may have all of the oddities.
    this.#odd = true
    return this.#end >= 0
  }

  #noteString(field: Field, page: Buffer, start: number): boolean {
    let at = start
    while (IS_PLAIN[page[at]!] === 1) at += 1
    if (page[at] === QUOTE) {
      // Nothing more can be learned about a column that holds other text.
      if ((field.kinds & Kind.text) === 0) field.kinds |= kindOfString(page, start, at)
      this.#end = at + 1
      return true
    }
    field.kinds |= Kind.text
    for (;;) {
      const byte = page[at]
      if (byte === QUOTE) {
        this.#end = at + 1
        return true
      }
      if (byte !== BACKSLASH) return false
      if (IS_ESCAPE[page[at + 1]!] === 1) at += 2
      else if (page[at + 1] === LOWER_U && isHex(page, at + 2)) {
        if (isUnusualCharacter(page, at + 2)) this.#odd = true
        at += 6
      } else return false
      while (IS_PLAIN[page[at]!] === 1) at += 1
    }
  }

  #noteNumber(field: Field, page: Buffer, start: number): boolean {
    let at = page[start] === MINUS ? start + 1 : start
    const first = at
    if (page[at] === ZERO) at += 1
    else while (IS_DIGIT[page[at]!] === 1) at += 1
    const whole = at - first
    if (whole === 0) return false
    let scale = 0
    if (page[at] === POINT) {
      const point = at
      at += 1
      while (IS_DIGIT[page[at]!] === 1) at += 1
      scale = at - point - 1
      if (scale === 0) return false
    }
    const next = page[at]
    // An exponent, or digits after a zero.
    if (next !== COMMA && next !== CLOSE_BRACE) return false
    this.#end = at
    if (at - start > FLOAT64_DIGITS) {
      noteNumber(field, page.toString('latin1', start, at))
      return true
    }
    field.kinds |= scale === 0 ? Kind.integer : Kind.number
    if (whole > field.whole) field.whole = whole
    if (scale > field.scale) field.scale = scale
    return true
  }
}

const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')

function startsWith(page: Buffer, at: number, expected: Buffer): boolean {
  const { length } = expected
  for (let index = 0; index < length; index += 1) if (page[at + index] !== expected[index]) return false
  return true
}

function isHex(page: Buffer, at: number): boolean {
  return IS_HEX[page[at]!]! + IS_HEX[page[at + 1]!]! + IS_HEX[page[at + 2]!]! + IS_HEX[page[at + 3]!]! === 4
}

/** U+0000, and surrogates, of which a lone one is no character. */
function isUnusualCharacter(page: Buffer, at: number): boolean {
  const code = Number.parseInt(page.toString('latin1', at, at + 4), 16)
  return code === 0 || (code >= 0xd800 && code <= 0xdfff)
}

/** Surveys lines that were checked before. */
export function surveyLines(survey: LineSurvey, page: Buffer): void {
  for (let at = 0; at < page.length; ) {
    const next = survey.scanLine(page, at)
    if (next !== UNUSUAL) {
      at = next
      continue
    }
    const newline = page.indexOf(NEWLINE, at)
    const end = newline === -1 ? page.length : newline
    if (end > at) survey.addLine(page, at, end)
    at = end + 1
  }
}
