/**
 * Times as Python has them: a moment with microseconds and, unless it is naive, an offset from UTC. JavaScript's Date
 * has milliseconds only, and manifests format six digits.
 */

const DAY_SECONDS = 86_400

/** Fields of a calendar, in the offset of the time they belong to. */
export interface Fields {
  year: number
  month: number
  day: number
  hour: number
  minute: number
  second: number
  micros: number
}

export class DateTime {
  /** Seconds since 1970 in UTC; for a naive time, as if its fields were UTC. */
  readonly seconds: number
  readonly micros: number
  /** Seconds east of UTC, or null for a naive time. */
  readonly offset: number | null

  constructor(seconds: number, micros: number, offset: number | null) {
    this.seconds = seconds
    this.micros = micros
    this.offset = offset
  }

  static now(): DateTime {
    const ms = performance.timeOrigin + performance.now()
    const micros = Math.floor(ms * 1000)
    return DateTime.fromMicros(micros, 0)
  }

  static fromMicros(micros: number, offset: number | null): DateTime {
    const seconds = Math.floor(micros / 1_000_000)
    return new DateTime(seconds, Math.floor(micros - seconds * 1_000_000), offset)
  }

  /** Throws a RangeError for a day that the calendar does not have. */
  static fromFields(fields: Fields, offset: number | null): DateTime {
    checkFields(fields)
    const days = Math.floor(utcDay(fields.year, fields.month, fields.day))
    const seconds = days * DAY_SECONDS + fields.hour * 3600 + fields.minute * 60 + fields.second
    return new DateTime(seconds - (offset ?? 0), fields.micros, offset)
  }

  /** As a number of microseconds since 1970; exact up to the year 2255. */
  get epochMicros(): number {
    return this.seconds * 1_000_000 + this.micros
  }

  get fields(): Fields {
    return fieldsOf(this.seconds + (this.offset ?? 0), this.micros)
  }

  /** The same moment shown in another offset; a naive time is taken as UTC. */
  in(offset: number): DateTime {
    return new DateTime(this.seconds, this.micros, offset)
  }

  plus(delta: Delta): DateTime {
    const micros = this.micros + delta.micros
    const carry = Math.floor(micros / 1_000_000)
    const moved = new DateTime(this.seconds + delta.seconds + carry, micros - carry * 1_000_000, this.offset)
    const years = moved.fields.year
    if (years < 1 || years > 9999) throw new RangeError('the date is out of range')
    return moved
  }

  /** Adds calendar months, keeping the day where the month has it, else its last day. */
  plusMonths(months: number): DateTime {
    const fields = this.fields
    const index = fields.year * 12 + (fields.month - 1) + months
    const year = Math.floor(index / 12)
    const month = (((index % 12) + 12) % 12) + 1
    const day = Math.min(fields.day, daysInMonth(year, month))
    return DateTime.fromFields({ ...fields, year, month, day }, this.offset)
  }

  minus(other: DateTime): Delta {
    return Delta.of(this.seconds - other.seconds, this.micros - other.micros)
  }

  compare(other: DateTime): number {
    return this.seconds - other.seconds || this.micros - other.micros
  }

  /** Python's `isoformat`. */
  iso(separator = 'T', precision = 'auto'): string {
    const f = this.fields
    return `${isoDate(f)}${separator}${isoTime(f, precision)}${offsetText(this.offset)}`
  }

  toString(): string {
    return this.iso(' ')
  }
}

/** A day without a time. */
export class CalendarDate {
  /** Days since 1970. */
  readonly days: number
  constructor(days: number) {
    this.days = days
  }

  static fromFields(year: number, month: number, day: number): CalendarDate {
    checkFields({ year, month, day, hour: 0, minute: 0, second: 0, micros: 0 })
    return new CalendarDate(utcDay(year, month, day))
  }

  get fields(): Fields {
    return fieldsOf(this.days * DAY_SECONDS, 0)
  }

  plus(delta: Delta): CalendarDate {
    return new CalendarDate(this.days + Math.floor(delta.seconds / DAY_SECONDS))
  }

  plusMonths(months: number): CalendarDate {
    const moved = this.midnight().plusMonths(months)
    return new CalendarDate(Math.floor(moved.seconds / DAY_SECONDS))
  }

  minus(other: CalendarDate): Delta {
    return new Delta((this.days - other.days) * DAY_SECONDS, 0)
  }

  midnight(): DateTime {
    return new DateTime(this.days * DAY_SECONDS, 0, null)
  }

  compare(other: CalendarDate): number {
    return this.days - other.days
  }

  toString(): string {
    return isoDate(this.fields)
  }
}

/** A length of time in whole seconds and microseconds, where the microseconds are never negative. */
export class Delta {
  readonly seconds: number
  readonly micros: number
  constructor(seconds: number, micros: number) {
    this.seconds = seconds
    this.micros = micros
  }

  static of(seconds: number, micros: number): Delta {
    const carry = Math.floor(micros / 1_000_000)
    return new Delta(seconds + carry, micros - carry * 1_000_000)
  }

  negated(): Delta {
    return Delta.of(-this.seconds, -this.micros)
  }

  plus(other: Delta): Delta {
    return Delta.of(this.seconds + other.seconds, this.micros + other.micros)
  }

  times(factor: number): Delta {
    const micros = Math.round((this.seconds * 1_000_000 + this.micros) * factor)
    const seconds = Math.floor(micros / 1_000_000)
    return new Delta(seconds, micros - seconds * 1_000_000)
  }

  get totalSeconds(): number {
    return this.seconds + this.micros / 1_000_000
  }

  compare(other: Delta): number {
    return this.seconds - other.seconds || this.micros - other.micros
  }

  toString(): string {
    const days = Math.floor(this.seconds / DAY_SECONDS)
    const rest = this.seconds - days * DAY_SECONDS
    const clock = `${Math.floor(rest / 3600)}:${pad(Math.floor((rest % 3600) / 60))}:${pad(rest % 60)}`
    const fraction = this.micros === 0 ? '' : `.${pad(this.micros, 6)}`
    return `${days === 0 ? '' : `${days} day${Math.abs(days) === 1 ? '' : 's'}, `}${clock}${fraction}`
  }
}

export function isoDate(f: Fields): string {
  return `${pad(f.year, 4)}-${pad(f.month)}-${pad(f.day)}`
}

function isoTime(f: Fields, precision: string): string {
  const hours = pad(f.hour)
  if (precision === 'hours') return hours
  const minutes = `${hours}:${pad(f.minute)}`
  if (precision === 'minutes') return minutes
  const seconds = `${minutes}:${pad(f.second)}`
  if (precision === 'milliseconds') return `${seconds}.${pad(Math.floor(f.micros / 1000), 3)}`
  if (precision === 'seconds' || (precision === 'auto' && f.micros === 0)) return seconds
  return `${seconds}.${pad(f.micros, 6)}`
}

/** `+00:00`; empty for a naive time. */
export function offsetText(offset: number | null, colon = ':'): string {
  if (offset === null) return ''
  const size = Math.abs(offset)
  const seconds = size % 60
  const text = `${offset < 0 ? '-' : '+'}${pad(Math.floor(size / 3600))}${colon}${pad(Math.floor((size % 3600) / 60))}`
  return seconds === 0 ? text : `${text}${colon}${pad(seconds)}`
}

export function pad(value: number, width = 2): string {
  return String(value).padStart(width, '0')
}

function daysInMonth(year: number, month: number): number {
  return new Date(Date.UTC(2000 + (((year % 400) + 400) % 400), month, 0)).getUTCDate()
}

/** Days since 1970 of a day in the proleptic Gregorian calendar. */
function utcDay(year: number, month: number, day: number): number {
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  return Math.floor(date.getTime() / (DAY_SECONDS * 1000))
}

function fieldsOf(seconds: number, micros: number): Fields {
  const date = new Date(seconds * 1000)
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    hour: date.getUTCHours(),
    minute: date.getUTCMinutes(),
    second: date.getUTCSeconds(),
    micros,
  }
}

function checkFields(f: Fields): void {
  const ok =
    f.year >= 1 &&
    f.year <= 9999 &&
    f.month >= 1 &&
    f.month <= 12 &&
    f.day >= 1 &&
    f.day <= daysInMonth(f.year, f.month) &&
    f.hour >= 0 &&
    f.hour < 24 &&
    f.minute >= 0 &&
    f.minute < 60 &&
    f.second >= 0 &&
    f.second < 60
  if (!ok) throw new RangeError(`${isoDate(f)} ${pad(f.hour)}:${pad(f.minute)}:${pad(f.second)} is not a valid time`)
}
