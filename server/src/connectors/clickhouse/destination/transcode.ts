/**
 * Typed rows as ClickHouse reads them. Most fields are the same; bytes are written as escapes, lists as JSON, and booleans as
 * digits where the column is a number. ClickHouse does not refuse what is too large: an integer wraps around, digits
 * after the point are cut, and times beyond a type's years become its first or last. So all of these are checked here.
 */
import type { ColumnType } from '../../types/column-types.ts'
import { partsOf } from '../../types/column-types.ts'
import { countDigits } from '../../types/digits.ts'
import { escapeField, unescapeField } from '../../types/tsv.ts'
import { writerOf } from '../../types/tsv-records.ts'
import { parseClickhouseType } from '../shared/type-names.ts'
import type { WrittenColumn } from './shape.ts'

const TAB = 9
const NEWLINE = 10
const BACKSLASH = 92
const LETTER_N = 78

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

/** What happens to the fields of a column: a check of their text, a new text, or nothing. */
interface Treatment {
  fits?: (text: string) => boolean
  rewrite?: (field: string) => string
}

export type Transcoder = (rows: Buffer) => Buffer

export function createTranscoder(columns: readonly WrittenColumn[]): Transcoder {
  const treatments = columns.map(treat)
  const plain = treatments.every(({ fits, rewrite }) => fits === undefined && rewrite === undefined)
  return plain ? (rows) => rows : (rows) => treatRows(rows, treatments)
}

function treat({ from, neutral, sql }: WrittenColumn): Treatment {
  const { base, list } = partsOf(from)
  if (list) return neutral === 'json' ? { rewrite: rewriteList(from) } : {}
  if (neutral === 'bytes') return base === 'bytes' ? { rewrite: rewriteBytes } : {}
  const own = parseClickhouseType(sql)
  const fits = createTest(own.base, own.args)
  if (base === 'boolean' && own.base !== 'Bool' && own.base !== 'String')
    return { rewrite: (field) => (/^[t1]/.test(field) ? '1' : '0') }
  // Where the text of a type always fits, nothing is checked.
  return fits === null || alwaysFits(base, sql) ? {} : { fits }
}

/** An integer of a neutral type in the column that is made for it. */
function alwaysFits(base: string, sql: string): boolean {
  return /^int\d/.test(base) && ['Int16', 'Int32', 'Int64'].indexOf(sql) >= ['int16', 'int32', 'int64'].indexOf(base)
}

function createTest(base: string, args: readonly string[]): ((text: string) => boolean) | null {
  const integer = /^(U?)Int(8|16|32|64|128|256)$/.exec(base)
  if (integer) return createIntegerTest(integer[1] === 'U', Number(integer[2]))
  if (base === 'Decimal') return createDecimalTest(Number(args[0]), Number(args[1]))
  if (base === 'Date32' || base === 'DateTime64') return createYearTest(1900, 2299)
  if (base === 'Date') return createYearTest(1970, 2148)
  if (base === 'DateTime') return createYearTest(1970, 2105)
  return null
}

function createIntegerTest(unsigned: boolean, bits: number): (text: string) => boolean {
  const high = (1n << BigInt(unsigned ? bits : bits - 1)) - 1n
  const low = unsigned ? 0n : -high - 1n
  const sure = String(high).length
  return (text) => {
    if (!/^-?\d+$/.test(text)) return false
    if (text.length < sure && (!unsigned || text[0] !== '-')) return true
    const value = BigInt(text)
    return value >= low && value <= high
  }
}

function createDecimalTest(precision: number, scale: number): (text: string) => boolean {
  const sure = Math.min(precision - scale, scale)
  return (text) => {
    if (text.length <= sure && /^-?\d[\d.]*$/.test(text)) return true
    const digits = countDigits(text)
    return digits !== null && digits.whole <= precision - scale && digits.scale <= scale
  }
}

/** Dates and times begin with their year. At the edges only those in UTC are sure to stay inside. */
function createYearTest(first: number, last: number): (text: string) => boolean {
  return (text) => {
    if (!/^\d{4}-/.test(text) || text.endsWith('BC')) return false
    const year = Number(text.slice(0, 4))
    if (year > first && year < last) return true
    return (year === first || year === last) && !/[+-]\d\d:?\d\d$/.test(text.slice(10).replace(/\+00(:?00)?$/, ''))
  }
}

/** `\x4142` in the contract; an escape for every byte here. */
function rewriteBytes(field: string): string {
  const text = unescapeField(field) ?? ''
  return /^\\x([0-9a-f]{2})*$/i.test(text) ? text.slice(2).replace(/../g, '\\x$&') : field
}

function rewriteList(type: ColumnType): (field: string) => string {
  const write = writerOf(type)
  return (field) => {
    const text = unescapeField(field) ?? ''
    return escapeField(text.startsWith('{') || text.startsWith('[') ? write(text) : JSON.stringify(text))
  }
}

function treatRows(rows: Buffer, treatments: readonly Treatment[]): Buffer {
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
  while (at < rows.length) {
    const start = at
    let byte = rows[at]!
    while (byte !== TAB && byte !== NEWLINE) byte = rows[++at]!
    const { fits, rewrite } = treatments[place] ?? {}
    const isNull = rows[start] === BACKSLASH && rows[start + 1] === LETTER_N && at - start === 2
    if (fits !== undefined && !isNull && !fits(rows.toString('latin1', start, at)))
      throw new Misfit(place, rows.toString('utf8', start, at))
    if (rewrite !== undefined && !isNull) {
      const text = rewrite(rows.toString('utf8', start, at))
      reserve(text.length * 3 + 1)
      to += output.write(text, to)
    } else {
      reserve(at - start + 1)
      to += rows.copy(output, to, start, at)
    }
    output[to++] = byte
    at += 1
    place = byte === NEWLINE ? 0 : place + 1
  }
  return output.subarray(0, to)
}

/** The rows with one more field at their end. */
export function appendField(rows: Buffer, field: string): Buffer {
  const more = Buffer.from(`\t${field}\n`)
  let count = 0
  for (let at = rows.indexOf(NEWLINE); at >= 0; at = rows.indexOf(NEWLINE, at + 1)) count += 1
  const output = Buffer.allocUnsafe(rows.length + count * (more.length - 1))
  let to = 0
  let from = 0
  for (let at = rows.indexOf(NEWLINE); at >= 0; at = rows.indexOf(NEWLINE, from)) {
    to += rows.copy(output, to, from, at)
    to += more.copy(output, to)
    from = at + 1
  }
  return output
}
