/**
 * Cron schedules: five fields, read by croner, in the pipeline's time zone or UTC.
 *
 * Daylight saving time: when clocks go forward, a fixed time that is skipped (02:30) fires at the first moment after the
 * gap; when they go back, it fires once, the first time. Repeating schedules (every half hour) follow elapsed time, so they
 * neither stop nor fire twice. If both the day of the month and the day of the week are given, either one matches, as in
 * every cron.
 */
import { Cron } from 'croner'
import { type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import { nearest } from '../nearest.ts'

const SHAPE = /^[0-9A-Za-z*,/-]+$/
const NAMES = /^(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)$/i
const FIELDS = ['minute', 'hour', 'day of the month', 'month', 'day of the week'] as const
const BOUNDS = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
] as const

/**
 * The next times after `from`, at most `count`, before `until`; none if there is no such date. Throws if it cannot be
 * parsed.
 */
export function nextTimes(
  schedule: string,
  timezone: string | null,
  from: Date,
  { count, until = Number.POSITIVE_INFINITY }: { count: number; until?: number },
): Date[] {
  // A fixed offset avoids the time zone calendar, which is the expensive part.
  const zone = timezone === null ? { utcOffset: 0 } : { timezone }
  const cron = new Cron(schedule, { mode: '5-part', paused: true, ...zone })
  const times: Date[] = []
  if (isImpossibleDate(schedule)) return times
  // One after the other: each costs a search of the calendar.
  for (let last = from; times.length < count; last = times.at(-1)!) {
    const next = cron.nextRun(last)
    if (next === null || next.getTime() >= until) break
    times.push(next)
  }
  return times
}

/** The next time of a schedule that was accepted before, or null. */
export const nextTime = (schedule: string, timezone: string | null, from: Date): Date | null =>
  nextTimes(schedule, timezone, from, { count: 1 })[0] ?? null

/** The next time. Refuses an invalid schedule, or one that never fires. `now` is the database's time. */
export function checkSchedule(schedule: string, timezone: string | null, now: Date): Date {
  const fault = findScheduleFault(schedule)
  if (fault !== null) throw new AppError('invalid_input', `schedule: ${fault}`)
  let next: Date | null
  try {
    next = nextTime(schedule, timezone, now)
  } catch (error) {
    throw new AppError('invalid_input', `schedule: ${readable((error as Error).message)}`)
  }
  if (next === null)
    throw new AppError(
      'invalid_input',
      `schedule: '${schedule}' never fires, because there is no such date; choose another`,
    )
  return next
}

export function checkTimezone(timezone: string): void {
  const fault = findTimezoneFault(timezone)
  if (fault !== null) throw new AppError('invalid_input', `timezone: ${fault}`)
}

export function findTimezoneFault(timezone: string): string | null {
  if (isTimezone(timezone)) return null
  const near = nearest(timezone, Intl.supportedValuesOf('timeZone'))
  const hint = near === null ? 'use a name like Europe/Berlin or America/New_York' : `did you mean '${near}'?`
  return `there is no time zone '${timezone}'; ${hint}`
}

/** Only IANA names: an offset such as +02:00 has no daylight saving time. */
function isTimezone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

function findScheduleFault(schedule: string): string | null {
  const parts = schedule.trim().split(/\s+/)
  if (parts.length !== FIELDS.length)
    return `must have five fields (minute hour day month weekday), as in '0 6 * * 1', not ${schedule.trim() === '' ? 0 : parts.length}`
  for (const [index, part] of parts.entries()) {
    if (!SHAPE.test(part))
      return `the ${FIELDS[index]} '${part.slice(0, 40)}' has a character that is not allowed; use numbers, names, * , - and /`
    const words = part.match(/[A-Za-z]+/g) ?? []
    const wrong = words.find((word) => index < 3 || !NAMES.test(word))
    if (wrong !== undefined) return `the ${FIELDS[index]} does not accept the name '${wrong.slice(0, 40)}'`
    const [least, most] = BOUNDS[index]!
    const outside = part
      .replace(/\/\d+/g, '')
      .match(/\d+/g)
      ?.find((each) => +each < least || +each > most)
    if (outside !== undefined) return `the ${FIELDS[index]} must be ${least} to ${most}, not ${outside.slice(0, 40)}`
  }
  return null
}

const LONGEST_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

/**
 * Whether no selected month has such a day, as in 31 February; the schedule is one that croner parses. Croner itself
 * would search the whole calendar, which takes many milliseconds, and every viewer may ask for it at any time. With a day
 * of the week there is always a date, because either one matches.
 */
function isImpossibleDate(schedule: string): boolean {
  const [, , days = '', months = '', weekdays] = schedule.trim().split(/\s+/)
  if (weekdays !== '*') return false
  const named = months.toLowerCase().replace(/[a-z]+/g, (name) => String(MONTHS.indexOf(name) + 1))
  return !listValues(named, 1, 12).some((month) => listValues(days, 1, LONGEST_MONTHS[month - 1]!).length > 0)
}

/** The values that a field selects, up to `most`. */
function listValues(field: string, least: number, most: number): number[] {
  const parts = field.split(',').map((part) => {
    const [range = '', step = '1'] = part.split('/')
    const [from, to = from] = range === '*' ? [least, most] : range.split('-').map(Number)
    return { from: from!, to: to!, step: Number(step) }
  })
  const all = Array.from({ length: most - least + 1 }, (_, index) => least + index)
  return all.filter((value) =>
    parts.some(({ from, to, step }) => value >= from && value <= to && (value - from) % step === 0),
  )
}

const readable = (message: string) =>
  message
    .replace(/^CronPattern: /, '')
    .replace(/^Syntax error, /, '')
    .replace(/^./, (first) => first.toLowerCase())

const PREVIEWED = 5

export async function previewSchedule(
  db: Queryable,
  input: { schedule: string; timezone?: string | null },
): Promise<{ schedule: string; timezone: string | null; next_times: string[] }> {
  const timezone = input.timezone ?? null
  const schedule = input.schedule.trim()
  const row = await db.first<{ now: string }>(sql`SELECT now() AS now`)
  const now = new Date(row!.now)
  if (timezone !== null) checkTimezone(timezone)
  checkSchedule(schedule, timezone, now)
  return {
    schedule,
    timezone,
    next_times: nextTimes(schedule, timezone, now, { count: PREVIEWED }).map((time) =>
      time.toISOString().replace('Z', '000Z'),
    ),
  }
}
