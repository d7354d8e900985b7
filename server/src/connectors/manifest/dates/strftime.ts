/** Python's `strftime` in the C locale, in UTC where a time has no offset. */
import { type CalendarDate, DateTime, type Fields, isoDate, offsetText, pad } from './datetime.ts'

export const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
export const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
]

interface Parts extends Fields {
  /** Sunday is 0. */
  weekday: number
  /** 1 January is 1. */
  yearday: number
  offset: number | null
  epoch: number
}

const DIRECTIVES: Record<string, (p: Parts) => string> = {
  Y: (p) => String(p.year),
  y: (p) => pad(p.year % 100),
  C: (p) => pad(Math.floor(p.year / 100)),
  m: (p) => pad(p.month),
  d: (p) => pad(p.day),
  e: (p) => String(p.day).padStart(2),
  H: (p) => pad(p.hour),
  k: (p) => String(p.hour).padStart(2),
  I: (p) => pad(p.hour % 12 || 12),
  l: (p) => String(p.hour % 12 || 12).padStart(2),
  M: (p) => pad(p.minute),
  S: (p) => pad(p.second),
  f: (p) => pad(p.micros, 6),
  z: (p) => offsetText(p.offset, ''),
  Z: (p) => (p.offset === null ? '' : p.offset === 0 ? 'UTC' : `UTC${offsetText(p.offset)}`),
  a: (p) => DAYS[p.weekday]!.slice(0, 3),
  A: (p) => DAYS[p.weekday]!,
  b: (p) => MONTHS[p.month - 1]!.slice(0, 3),
  h: (p) => MONTHS[p.month - 1]!.slice(0, 3),
  B: (p) => MONTHS[p.month - 1]!,
  p: (p) => (p.hour < 12 ? 'AM' : 'PM'),
  P: (p) => (p.hour < 12 ? 'am' : 'pm'),
  j: (p) => pad(p.yearday, 3),
  U: (p) => pad(Math.floor((p.yearday + 6 - p.weekday) / 7)),
  W: (p) => pad(Math.floor((p.yearday + 6 - ((p.weekday + 6) % 7)) / 7)),
  u: (p) => String(p.weekday || 7),
  w: (p) => String(p.weekday),
  G: (p) => String(isoWeek(p).year),
  g: (p) => pad(isoWeek(p).year % 100),
  V: (p) => pad(isoWeek(p).week),
  s: (p) => String(p.epoch),
  F: (p) => isoDate(p),
  D: (p) => `${pad(p.month)}/${pad(p.day)}/${pad(p.year % 100)}`,
  x: (p) => `${pad(p.month)}/${pad(p.day)}/${pad(p.year % 100)}`,
  T: (p) => clock(p),
  X: (p) => clock(p),
  R: (p) => `${pad(p.hour)}:${pad(p.minute)}`,
  r: (p) => `${pad(p.hour % 12 || 12)}:${pad(p.minute)}:${pad(p.second)} ${p.hour < 12 ? 'AM' : 'PM'}`,
  c: (p) =>
    `${DAYS[p.weekday]!.slice(0, 3)} ${MONTHS[p.month - 1]!.slice(0, 3)} ${String(p.day).padStart(2)} ${clock(p)} ${p.year}`,
  n: () => '\n',
  t: () => '\t',
  '%': () => '%',
}

export function strftime(time: DateTime | CalendarDate, format: string): string {
  const parts = partsOf(time)
  return format.replace(/%([-_0^#]?)([a-zA-Z%])/g, (whole, flag: string, letter: string) => {
    const directive = DIRECTIVES[letter]
    // The C library leaves what it does not know as it is.
    if (directive === undefined) return whole
    return flagged(directive(parts), flag)
  })
}

/** The directives of a format that `strftime` does not know. */
export function unknownDirectives(format: string): string[] {
  const unknown = [...format.matchAll(/%[-_0^#]?([a-zA-Z])/g)].filter((match) => DIRECTIVES[match[1]!] === undefined)
  return unknown.map((match) => match[0])
}

/** The flags of the GNU C library: `-` drops the padding, `_` pads with spaces, `^` is upper case. */
function flagged(text: string, flag: string): string {
  if (flag === '-') return text.replace(/^[0 ]+(?=.)/, '')
  if (flag === '_') return text.replace(/^0+(?=.)/, (zeros) => ' '.repeat(zeros.length))
  if (flag === '0') return text.replace(/^ +/, (spaces) => '0'.repeat(spaces.length))
  if (flag === '^') return text.toUpperCase()
  return text
}

function partsOf(time: DateTime | CalendarDate): Parts {
  const fields = time.fields
  const days = dayNumber(fields)
  return {
    ...fields,
    weekday: (((days + 4) % 7) + 7) % 7,
    yearday: days - dayNumber({ ...fields, month: 1, day: 1 }) + 1,
    offset: time instanceof DateTime ? time.offset : null,
    epoch: time instanceof DateTime ? time.seconds : time.days * 86_400,
  }
}

function dayNumber(f: Pick<Fields, 'year' | 'month' | 'day'>): number {
  const date = new Date(0)
  date.setUTCFullYear(f.year, f.month - 1, f.day)
  return Math.floor(date.getTime() / 86_400_000)
}

function isoWeek(p: Parts): { year: number; week: number } {
  const thursday = p.yearday + 4 - (p.weekday || 7)
  if (thursday < 1) return { year: p.year - 1, week: weekOf(thursday + yearLength(p.year - 1)) }
  if (thursday > yearLength(p.year)) return { year: p.year + 1, week: 1 }
  return { year: p.year, week: weekOf(thursday) }
}

function weekOf(yearday: number): number {
  return Math.floor((yearday - 1) / 7) + 1
}

function yearLength(year: number): number {
  return dayNumber({ year: year + 1, month: 1, day: 1 }) - dayNumber({ year, month: 1, day: 1 })
}

function clock(p: Fields): string {
  return `${pad(p.hour)}:${pad(p.minute)}:${pad(p.second)}`
}
