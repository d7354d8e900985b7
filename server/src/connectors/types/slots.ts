/** Which values of a field its column takes, judged by their bytes. */

import { type Spans, ValueForm } from '../../json/record-scanner.ts'
import { type ColumnType, partsOf } from './column-types.ts'
import { countDigits, FLOAT32_DIGITS, FLOAT64_DIGITS, fitsFloat32, fitsFloat64 } from './digits.ts'
import { fractionDigits, kindOfString, looseForms } from './iso-times.ts'
import { Kind, type Kinds, type TypeTraits, traitsOf } from './kinds.ts'

export interface EncoderColumn {
  key: string
  type: ColumnType
  /** How many fractional digits of a second the column keeps, if fewer than six. */
  fraction?: number
  /** Accepts the key and drops its values. */
  ignored?: boolean
  /** Only null was seen so far: not written, and the first other value is reported as one that does not fit. */
  untyped?: boolean
}

export interface Slot {
  written: boolean
  accepts: Kinds
  form: TypeTraits['form']
  /** Strings that the column can parse although they do not look like its values. */
  loose: RegExp | null
  /** Numbers with at most this many characters always fit; longer ones are checked. */
  sureInteger: number
  sureDecimal: number
  /** Fractional digits of a second that are kept. */
  fraction: number
  /** A further condition for numbers; null if there is none. */
  fits: ((text: string) => boolean) | null
}

const everything = 255
/** Integers with this many characters fit int64, and decimals with that many fit a decimal without limits. */
const SHORT_INTEGER = 18
const SHORT_DECIMAL = 100
const MAX_FRACTION = 6

export function createSlot({ type, fraction = MAX_FRACTION, ignored, untyped }: EncoderColumn): Slot {
  const { accepts, form } = traitsOf(type)
  // A time of day is checked by the database, but the database would round digits that it cannot keep.
  const limited = accepts === everything && fraction < MAX_FRACTION
  return {
    written: !ignored && !untyped,
    accepts: ignored ? everything : untyped ? 0 : limited ? Kind.text : accepts,
    form,
    loose: untyped ? null : (looseForms[partsOf(type).base] ?? null),
    fraction,
    ...numberLimits(type),
  }
}

function numberLimits(type: ColumnType): Pick<Slot, 'sureInteger' | 'sureDecimal' | 'fits'> {
  const { base, precision, scale = 0 } = partsOf(type)
  const most = { int16: 32767, int32: 2147483647 }[base as string]
  if (most !== undefined) {
    const fits = (text: string): boolean => Number(text) <= most && Number(text) >= -most - 1
    return { sureInteger: String(most).length - 1, sureDecimal: 0, fits }
  }
  if (base === 'float64') return { sureInteger: FLOAT64_DIGITS, sureDecimal: FLOAT64_DIGITS, fits: fitsFloat64 }
  if (base === 'float32') return { sureInteger: FLOAT32_DIGITS, sureDecimal: FLOAT32_DIGITS, fits: fitsFloat32 }
  if (precision === undefined) return { sureInteger: SHORT_INTEGER, sureDecimal: SHORT_DECIMAL, fits: null }
  const fits = (text: string): boolean => {
    const digits = countDigits(text)
    return digits !== null && digits.whole <= precision - scale && digits.scale <= scale
  }
  return { sureInteger: Math.min(precision - scale, SHORT_INTEGER), sureDecimal: 0, fits }
}

/** 0 if the value fits its column, else its kind. */
export function misfit(page: Buffer, slot: Slot, spans: Spans, index: number): Kinds {
  const form = spans.form[index]!
  if (form === ValueForm.null || slot.accepts === everything) return 0
  const start = spans.start[index]!
  const end = spans.end[index]!
  const kind = kindOf(page, form, start, end)
  if ((slot.accepts & kind) !== 0)
    return !isLimited(slot, kind) || keepsLimits(slot, kind, page.toString('latin1', start, end)) ? 0 : kind
  if (form !== ValueForm.string || slot.loose === null) return kind
  const text = page.toString('latin1', start, end)
  if (!slot.loose.test(text) || fractionDigits(text) > slot.fraction) return kind
  // A number in a string must satisfy the same limits; NaN and infinity have no digits.
  return slot.fits === null || !/\d/.test(text) || slot.fits(text) ? 0 : kind
}

const isNumber = (kind: Kinds): boolean => (kind & (Kind.integer | Kind.number)) !== 0

function isLimited({ fits, fraction }: Slot, kind: Kinds): boolean {
  return isNumber(kind) ? fits !== null : fraction < MAX_FRACTION && kind !== Kind.date
}

function keepsLimits({ fits, fraction }: Slot, kind: Kinds, text: string): boolean {
  return isNumber(kind) ? fits === null || fits(text) : fractionDigits(text) <= fraction
}

export function kindOf(page: Buffer, form: number, start: number, end: number): Kinds {
  switch (form) {
    case ValueForm.string:
      return kindOfString(page, start, end)
    case ValueForm.escaped:
      return Kind.text
    case ValueForm.boolean:
      return Kind.boolean
    case ValueForm.integer:
      return fitsInt64(page, start, end) ? Kind.integer : kindOfNumber(page, start, end)
    case ValueForm.number:
      return kindOfNumber(page, start, end)
    default:
      return Kind.nested
  }
}

function fitsInt64(page: Buffer, start: number, end: number): boolean {
  const digits = end - start - (page[start] === 45 ? 1 : 0)
  if (digits <= 18) return true
  if (digits > 19) return false
  const value = BigInt(page.toString('latin1', start, end))
  return value >= -(2n ** 63n) && value < 2n ** 63n
}

/** PostgreSQL's numeric ends at 131,072 digits before the point and 16,383 after it: what may not fit is kept as text. */
function kindOfNumber(page: Buffer, start: number, end: number): Kinds {
  let exponentAt = start
  while (exponentAt < end && (page[exponentAt]! | 32) !== 101) exponentAt += 1
  const exponent = exponentAt === end ? 0 : Number(page.toString('latin1', exponentAt + 1, end))
  return end - start <= 8000 && Math.abs(exponent) <= 8000 ? Kind.number : Kind.text
}
