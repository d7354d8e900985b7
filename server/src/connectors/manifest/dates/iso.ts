/** ISO 8601 dates and durations, as the libraries behind Airbyte's macros read them. */
import { CalendarDate, DateTime, Delta } from './datetime.ts'

/** A duration with calendar months, which have no fixed length, beside the rest. */
export interface IsoDuration {
  months: number
  delta: Delta
}

const DATE = /^(\d{4})(?:-?(\d{2})(?:-?(\d{2}))?)?$/
const WEEK = /^(\d{4})-?W(\d{2})(?:-?([1-7]))?$/
const ORDINAL = /^(\d{4})-?(\d{3})$/
const TIME = /^(\d{2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d+))?)?)?(Z|z|[+-]\d{2}(?::?\d{2})?)?$/
const DURATION =
  /^([+-])?P(?!$)(?:([\d.,]+)Y)?(?:([\d.,]+)M)?(?:([\d.,]+)W)?(?:([\d.,]+)D)?(?:T(?=\d)(?:([\d.,]+)H)?(?:([\d.,]+)M)?(?:([\d.,]+)S)?)?$/

/** A time from ISO 8601 text, naive where it names no zone; null where it is not one. */
export function parseIso(text: string): DateTime | null {
  if (text.length > 64) return null
  const split = splitTime(text)
  const day = parseDay(split.day)
  if (day === null) return null
  if (split.time === null) return day.midnight()
  const match = TIME.exec(split.time)
  if (match === null) return null
  return withClock(day, match)
}

function splitTime(text: string): { day: string; time: string | null } {
  // The date ends where the first character follows that no date holds; Python allows any separator there.
  const match = /^(\d{4}(?:-?W\d{2}(?:-?[1-7])?|-?\d{2}-?\d{2}|-\d{2}|-?\d{3})?)(?:[^\d](.+))?$/.exec(text)
  if (match === null) return { day: text, time: null }
  return { day: match[1]!, time: match[2] ?? null }
}

function parseDay(text: string): CalendarDate | null {
  try {
    const date = DATE.exec(text)
    if (date !== null) return CalendarDate.fromFields(Number(date[1]), Number(date[2] ?? 1), Number(date[3] ?? 1))
    const week = WEEK.exec(text)
    if (week !== null) return weekDay(Number(week[1]), Number(week[2]), Number(week[3] ?? 1))
    const ordinal = ORDINAL.exec(text)
    if (ordinal === null) return null
    return new CalendarDate(CalendarDate.fromFields(Number(ordinal[1]), 1, 1).days + Number(ordinal[2]) - 1)
  } catch {
    return null
  }
}

/** Monday of week 1 is the Monday of the week that contains 4 January. */
export function weekDay(year: number, week: number, day: number): CalendarDate {
  const fourth = CalendarDate.fromFields(year, 1, 4)
  const weekday = (fourth.days + 3) % 7
  return new CalendarDate(fourth.days - weekday + (week - 1) * 7 + day - 1)
}

function withClock(day: CalendarDate, match: RegExpExecArray): DateTime | null {
  const hour = Number(match[1])
  const midnightAfter = hour === 24
  const fields = {
    ...day.fields,
    hour: midnightAfter ? 0 : hour,
    minute: Number(match[2] ?? 0),
    second: Number(match[3] ?? 0),
    micros: Number((match[4] ?? '0').slice(0, 6).padEnd(6, '0')),
  }
  try {
    const time = DateTime.fromFields(fields, match[5] === undefined ? null : offsetOf(match[5]))
    return midnightAfter ? time.plus(new Delta(86_400, 0)) : time
  } catch {
    return null
  }
}

export function offsetOf(text: string): number {
  if (text === 'Z' || text === 'z') return 0
  const digits = text.slice(1).replaceAll(':', '')
  const seconds =
    Number(digits.slice(0, 2)) * 3600 + Number(digits.slice(2, 4) || 0) * 60 + Number(digits.slice(4, 6) || 0)
  return text.startsWith('-') ? -seconds : seconds
}

/** A duration from ISO 8601 text such as P1M, PT1H or P2W; null where it is not one. */
export function parseDuration(text: string): IsoDuration | null {
  if (text.length > 64) return null
  const match = DURATION.exec(text)
  if (match === null) return null
  const sign = match[1] === '-' ? -1 : 1
  const part = (index: number): number => Number((match[index] ?? '0').replace(',', '.'))
  const seconds = part(4) * 604_800 + part(5) * 86_400 + part(6) * 3600 + part(7) * 60 + part(8)
  const months = part(2) * 12 + part(3)
  if (!Number.isFinite(seconds) || !Number.isFinite(months)) return null
  const whole = Math.floor(seconds * sign)
  return { months: Math.trunc(months) * sign, delta: Delta.of(whole, Math.round((seconds * sign - whole) * 1_000_000)) }
}
