/** Recognises dates and times in strict ISO 8601 by their bytes. */
import type { BaseType } from './column-types.ts'
import { Kind } from './kinds.ts'

const DASH = 45
const COLON = 58
const daysIn = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** The number that two digits form, or a negative one if they are not digits. */
function pair(bytes: Uint8Array, at: number): number {
  const tens = bytes[at]! - 48
  const ones = bytes[at + 1]! - 48
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : -1
}

/**
 * `2024-02-29` is a date, `2024-02-29T12:00:00[.ffffff]` a timestamp, and with `Z` or `±hh:mm` appended a timestamptz.
 * Everything else is text, including dates that do not exist.
 */
export function kindOfString(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start
  if (length < 10 || length > 32 || bytes[start + 4] !== DASH || bytes[start + 7] !== DASH) return Kind.text
  const century = pair(bytes, start)
  const year = century * 100 + pair(bytes, start + 2)
  const month = pair(bytes, start + 5)
  const day = pair(bytes, start + 8)
  if (century < 0 || pair(bytes, start + 2) < 0 || year === 0 || month < 1 || month > 12 || day < 1) return Kind.text
  if (day > daysIn[month - 1]!) return Kind.text
  if (month === 2 && day === 29 && !(year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0))) return Kind.text
  if (length === 10) return Kind.date
  // The letter T. SQL writes a space instead, which is left to the column's type.
  if (length < 19 || bytes[start + 10] !== 84 || bytes[start + 13] !== COLON || bytes[start + 16] !== COLON)
    return Kind.text
  const hour = pair(bytes, start + 11)
  const minute = pair(bytes, start + 14)
  const second = pair(bytes, start + 17)
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return Kind.text
  let at = start + 19
  if (bytes[at] === 46 && at < end) {
    const from = at + 1
    at = from
    while (at < end && bytes[at]! >= 48 && bytes[at]! <= 57) at += 1
    if (at === from || at - from > 6) return Kind.text
  }
  if (at === end) return Kind.timestamp
  if (bytes[at] === 90) return at + 1 === end ? Kind.timestamptz : Kind.text
  if ((bytes[at] !== 43 && bytes[at] !== DASH) || at + 6 !== end || bytes[at + 3] !== COLON) return Kind.text
  const offset = pair(bytes, at + 1)
  const offsetMinutes = pair(bytes, at + 4)
  return offset >= 0 && offset <= 15 && offsetMinutes >= 0 && offsetMinutes <= 59 ? Kind.timestamptz : Kind.text
}

const looseDay = '\\d{4,6}-\\d\\d-\\d\\d'
const looseClock = '[ T]\\d\\d:\\d\\d(:\\d\\d(\\.\\d{1,6})?)?'
const looseZone = ' ?(Z|UTC|[+-]\\d\\d(:?\\d\\d)?)'

const notFinite = /^(NaN|-?Infinity)$/

/**
 * Strings that a column parses itself although the type would not be inferred from them. A time without a zone would be
 * read as UTC in a timestamptz column, and one with a zone would lose it in a timestamp column: neither fits.
 */
export const looseForms: Partial<Record<BaseType, RegExp>> = {
  date: new RegExp(`^${looseDay}( BC)?$|^-?infinity$`),
  timestamp: new RegExp(`^${looseDay}(${looseClock})?( BC)?$|^-?infinity$`, 'i'),
  timestamptz: new RegExp(`^${looseDay}${looseClock}${looseZone}( BC)?$|^-?infinity$`, 'i'),
  int16: /^(0|-?[1-9]\d{0,3})$/,
  int32: /^(0|-?[1-9]\d{0,8})$/,
  int64: /^(0|-?[1-9]\d{0,17})$/,
  decimal: /^(0|-?[1-9]\d{0,300})(\.\d{1,300})?$|^NaN$/,
  float32: notFinite,
  float64: notFinite,
}

/** How many fractional digits of a second are written. */
export function fractionDigits(text: string): number {
  return /:\d\d\.(\d+)/.exec(text)?.[1]?.length ?? 0
}
