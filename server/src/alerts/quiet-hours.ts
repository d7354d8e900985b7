/**
 * Quiet hours: a part of the day, by the clock on the wall of a time zone, in which nobody is told anything. They may go
 * past midnight, and then belong to the day on which they begin. `to` may be 24:00.
 */
import { AppError } from '../errors.ts'
import { findTimezoneFault } from '../pipelines/schedule.ts'

export const WEEKDAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const
type Weekday = (typeof WEEKDAYS)[number]

export interface QuietHours {
  from: string
  to: string
  time_zone: string
  /** The days on which they begin; absent: every day. */
  days?: Weekday[]
}

const MINUTE_MS = 60_000
const DAY_MINUTES = 24 * 60
/** More than any clock change: they come at most this much sooner than the clock before it says. */
const CLOCK_CHANGE_MINUTES = 180
/** The end of one period may be the beginning of the next, but not of more than a week of them. */
const LONGEST_MS = 8 * DAY_MINUTES * MINUTE_MS

export function checkQuietHours(hours: QuietHours): void {
  const refuse = (field: string, fault: string) => new AppError('invalid_input', `quiet_hours.${field}: ${fault}`)
  const fault = findTimezoneFault(hours.time_zone)
  if (fault !== null) throw refuse('time_zone', fault)
  if (hours.from === hours.to) throw refuse('to', 'must differ from `from`; for the whole day use 00:00 to 24:00')
  const isWholeDay = hours.from === '00:00' && hours.to === '24:00'
  if (isWholeDay && (hours.days === undefined || hours.days.length === WEEKDAYS.length))
    throw refuse('days', 'leave no time at which anything could be sent; disable the alert instead')
}

/** When the quiet hours end that `at` falls into, in milliseconds since 1970; null if it falls into none. */
export function endOfQuietHours(hours: QuietHours, at: number): number | null {
  const read = readClock(hours.time_zone)
  let left = minutesLeft(hours, read(at))
  if (left === 0) return null
  let end = at
  while (left > 0 && end - at < LONGEST_MS) {
    // In one step, if the minute before is the last one. Otherwise a clock changes on the way: far from the end in one step,
    // and the rest by minutes.
    const jump = (Math.floor(end / MINUTE_MS) + left) * MINUTE_MS
    const step = minutesLeft(hours, read(jump - MINUTE_MS)) === 1 ? left : Math.max(1, left - CLOCK_CHANGE_MINUTES)
    end = (Math.floor(end / MINUTE_MS) + step) * MINUTE_MS
    left = minutesLeft(hours, read(end))
  }
  return end
}

interface Clock {
  weekday: number
  minute: number
}

/** How long the clock has to go until quiet hours end; 0 outside of them. */
function minutesLeft({ from, to, days }: QuietHours, { weekday, minute }: Clock): number {
  const [begin, end] = [minuteOf(from), minuteOf(to)]
  const begins = (day: number) => days === undefined || days.includes(WEEKDAYS[(day + 7) % 7]!)
  if (begin < end) return begins(weekday) && minute >= begin && minute < end ? end - minute : 0
  if (minute >= begin && begins(weekday)) return end + DAY_MINUTES - minute
  return minute < end && begins(weekday - 1) ? end - minute : 0
}

const minuteOf = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

/** By time zone: making one takes much longer than using it. There are a few hundred, but any capitals will do in their names. */
const formats = new Map<string, Intl.DateTimeFormat>()
const MOST_FORMATS = 1000

function findFormat(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone)
  if (known) return known
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  })
  if (formats.size >= MOST_FORMATS) formats.clear()
  formats.set(timeZone, format)
  return format
}

function readClock(timeZone: string): (at: number) => Clock {
  const format = findFormat(timeZone)
  return (at) => {
    const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]))
    return {
      weekday: WEEKDAYS.indexOf(parts.weekday!.toLowerCase() as Weekday),
      minute: Number(parts.hour) * 60 + Number(parts.minute),
    }
  }
}
