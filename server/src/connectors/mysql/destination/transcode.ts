/**
 * Typed rows as LOAD DATA reads them. Most fields are the same; the exceptions: a form feed or vertical tab has no escape in
 * MySQL, booleans are digits, bytes are hex digits (a SET clause decodes them), instants are times in UTC without a zone,
 * and lists are JSON. The same escapes are valid in a quoted string, so the rows also serve a multi-row INSERT.
 */
import { ConnectorError } from '../../contract.ts'
import { partsOf } from '../../types/column-types.ts'
import { countDigits } from '../../types/digits.ts'
import { escapeField, unescapeField } from '../../types/tsv.ts'
import { listToJson } from './lists.ts'
import type { WrittenColumn } from './shape.ts'

const TAB = 9
const NEWLINE = 10
const BACKSLASH = 92
const LETTER_F = 102
const LETTER_V = 118
const LETTER_N = 78

type Form = 'copy' | 'boolean' | 'bytes' | 'instant' | 'list' | 'number'

/** A value that its column cannot hold, at this place of the row. */
export class Misfit extends Error {
  readonly place: number
  readonly value: string
  constructor(place: number, value: string) {
    super(`the value ${value.slice(0, 60)} does not fit`)
    this.place = place
    this.value = value
  }
}

function formOf({ from, neutral }: WrittenColumn): Form {
  const { base, list } = partsOf(from)
  if (list) return neutral === 'json' ? 'list' : 'copy'
  if (neutral === 'text') return 'copy'
  if (base === 'boolean') return 'boolean'
  if (neutral === 'bytes') return 'bytes'
  if (neutral === 'timestamptz') return 'instant'
  return base === 'decimal' || base.startsWith('float') ? 'number' : 'copy'
}

/** A value that MySQL cannot store at all. */
export class UnstorableValue extends ConnectorError {
  constructor(message: string) {
    super('destination', message)
  }
}

export type Transcoder = (rows: Buffer) => Buffer

export function createTranscoder(columns: readonly WrittenColumn[]): Transcoder {
  const forms = columns.map(formOf)
  const numbers = columns.map(({ neutral }) => createNumberTest(neutral))
  // A number of the column's own type can only be too much for it where it is none.
  const plain = columns.every((column, at) => forms[at] === 'copy' || (forms[at] === 'number' && hasOwnType(column)))
  return (rows) => {
    if (plain && !rows.includes('NaN') && !rows.includes('Infinity') && !hasRareEscape(rows)) return rows
    return rewrite(rows, forms, numbers)
  }
}

function hasOwnType({ from, neutral }: WrittenColumn): boolean {
  return from === neutral && (from.startsWith('float') || partsOf(from).precision !== undefined)
}

function hasRareEscape(rows: Buffer): boolean {
  for (let at = rows.indexOf(BACKSLASH); at >= 0; at = rows.indexOf(BACKSLASH, at + 2)) {
    const letter = rows[at + 1]
    if (letter === LETTER_F || letter === LETTER_V) return true
  }
  return false
}

const SURE_DIGITS = 30

/** Whether the text of a number fits the column, for those that are long or no numbers. */
function createNumberTest(neutral: WrittenColumn['neutral']): ((text: string) => boolean) | null {
  const { base, precision, scale = 0 } = partsOf(neutral)
  if (base.startsWith('float')) return (text) => /^-?\d/.test(text)
  if (base !== 'decimal' || precision === undefined) return null
  return (text) => {
    const digits = countDigits(text)
    return digits !== null && digits.whole <= precision - scale && digits.scale <= scale
  }
}

function rewrite(rows: Buffer, forms: readonly Form[], tests: readonly (((text: string) => boolean) | null)[]): Buffer {
  let output = Buffer.allocUnsafe(rows.length + (rows.length >> 3) + 1024)
  let to = 0
  let place = 0
  let at = 0
  const reserve = (size: number): void => {
    if (to + size <= output.length) return
    const larger = Buffer.allocUnsafe(Math.max(output.length * 2, to + size))
    output.copy(larger, 0, 0, to)
    output = larger
  }
  const write = (text: string): void => {
    reserve(text.length * 3 + 8)
    to += output.write(text, to)
  }
  while (at < rows.length) {
    const start = at
    let byte = rows[at]!
    while (byte !== TAB && byte !== NEWLINE) byte = rows[++at]!
    reserve(at - start + 8)
    const form = forms[place] ?? 'copy'
    if (rows[start] === BACKSLASH && rows[start + 1] === LETTER_N && at - start === 2) {
      output[to++] = BACKSLASH
      output[to++] = LETTER_N
    } else if (form === 'boolean') output[to++] = rows[start] === 116 || rows[start] === 49 ? 49 : 48
    else if (form === 'copy') to = copyField(rows, start, at, output, to)
    else if (form === 'number') {
      const test = tests[place] ?? null
      const sure = at - start < SURE_DIGITS && rows[at - 1]! <= 57 && rows[at - 1]! >= 48
      if (!sure && test !== null && !fits(rows.toString('latin1', start, at), test))
        throw new Misfit(place, rows.toString('latin1', start, at))
      to += rows.copy(output, to, start, at)
    } else write(rewriteField(form, rows.toString('utf8', start, at)))
    output[to++] = byte
    at += 1
    place = byte === NEWLINE ? 0 : place + 1
  }
  return output.subarray(0, to)
}

const fits = (text: string, test: (text: string) => boolean): boolean => /^-?\d/.test(text) && test(text)

function copyField(rows: Buffer, start: number, end: number, output: Buffer, into: number): number {
  let to = into
  for (let at = start; at < end; at += 1) {
    const byte = rows[at]!
    if (byte !== BACKSLASH) {
      output[to++] = byte
      continue
    }
    const letter = rows[++at]!
    if (letter === LETTER_F) output[to++] = 12
    else if (letter === LETTER_V) output[to++] = 11
    else {
      output[to++] = BACKSLASH
      output[to++] = letter
    }
  }
  return to
}

function rewriteField(form: Form, field: string): string {
  const text = unescapeField(field) ?? ''
  if (form === 'bytes') return /^\\x([0-9a-f]{2})*$/i.test(text) ? text.slice(2) : Buffer.from(text).toString('hex')
  if (form === 'instant') return toUtc(text)
  return escapeForMysql(listToJson(text))
}

function escapeForMysql(text: string): string {
  return escapeField(text).replace(/\\[fv]/g, (found, at: number, all: string) =>
    // Only where the backslash is not itself escaped.
    countBackslashes(all, at) % 2 === 0 ? (found === '\\f' ? '\f' : '\v') : found,
  )
}

function countBackslashes(text: string, end: number): number {
  let count = 0
  while (end - count > 0 && text[end - count - 1] === '\\') count += 1
  return count
}

const INSTANT = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d)(\.\d+)?)? ?(Z|UTC|[+-]\d\d(?::?\d\d)?(?::?\d\d)?)$/i

/** A time with a zone as the same instant in UTC. */
function toUtc(text: string): string {
  if (/\+00$|Z$/.test(text)) {
    const plain = text.replace(/\+00$|Z$/, '').replace('T', ' ')
    if (/^\d{4}-/.test(plain)) return plain.trimEnd()
  }
  const match = INSTANT.exec(text)
  if (match === null)
    throw new UnstorableValue(
      `The time ${JSON.stringify(text.slice(0, 60))} cannot be stored by MySQL, which has times from the year 1 to 9999 only; correct it, or exclude its column`,
    )
  const [, year, month, day, hour, minute, second = '00', fraction = '', zone = 'Z'] = match
  const time = new Date(0)
  time.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  time.setUTCHours(Number(hour), Number(minute) - offsetMinutes(zone), Number(second))
  return `${time
    .toISOString()
    .replace(/^[+-]\d\d(?=\d{4})/, '')
    .slice(0, 19)
    .replace('T', ' ')}${fraction}`
}

function offsetMinutes(zone: string): number {
  const [, sign, hours = '0', minutes = '0'] = /^([+-])(\d\d):?(\d\d)?/.exec(zone) ?? []
  if (sign === undefined) return 0
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes))
}
