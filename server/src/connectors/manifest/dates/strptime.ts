/**
 * Python's `strptime`: a format becomes one regular expression, once. The pieces for directives are fixed, each stands
 * once, and none can repeat without bound next to another, so the time of a match is bounded.
 */
import { CalendarDate, DateTime } from './datetime.ts'
import { offsetOf, weekDay } from './iso.ts'
import { DAYS, MONTHS } from './strftime.ts'

export type ParseTime = (text: string) => DateTime | null

const PIECES: Record<string, string> = {
  Y: '\\d{4}',
  y: '\\d{2}',
  m: '1[0-2]|0[1-9]|[1-9]',
  d: '3[01]|[12]\\d|0[1-9]|[1-9]| [1-9]',
  H: '2[0-3]|[01]\\d|\\d',
  I: '1[0-2]|0[1-9]|[1-9]| [1-9]',
  M: '[0-5]\\d|\\d',
  S: '6[01]|[0-5]\\d|\\d',
  f: '\\d{1,6}',
  z: '[+-]\\d{2}:?[0-5]\\d(?::?[0-5]\\d(?:\\.\\d{1,6})?)?|Z',
  Z: 'utc|gmt|z',
  a: DAYS.map((day) => day.slice(0, 3)).join('|'),
  A: DAYS.join('|'),
  b: MONTHS.map((month) => month.slice(0, 3)).join('|'),
  B: MONTHS.join('|'),
  p: 'am|pm',
  j: '36[0-6]|3[0-5]\\d|[12]\\d{2}|0[1-9]\\d|00[1-9]|[1-9]\\d|0[1-9]|[1-9]',
  G: '\\d{4}',
  V: '5[0-3]|0[1-9]|[1-4]\\d|\\d',
  u: '[1-7]',
  w: '[0-6]',
}

const COMPOSITE: Record<string, string> = {
  T: '%H:%M:%S',
  X: '%H:%M:%S',
  R: '%H:%M',
  F: '%Y-%m-%d',
  D: '%m/%d/%y',
  x: '%m/%d/%y',
  c: '%a %b %d %H:%M:%S %Y',
}

type Found = Record<string, string | undefined>

/** A parser of times in a format; throws a RangeError that names the directive which no such parser has. */
export function compileStrptime(format: string): ParseTime {
  const expanded = format.replace(/%([TXRFDxc])/g, (_, letter: string) => COMPOSITE[letter]!)
  const names: string[] = []
  let source = ''
  for (let at = 0; at < expanded.length; at++) {
    const char = expanded[at]!
    if (char !== '%') source += literal(char)
    else {
      const letter = expanded[++at] ?? ''
      if (letter === '%') source += '%'
      else source += directive(letter, names)
    }
  }
  const regex = new RegExp(`^${source.replace(/(?:\\s\+)+/g, '\\s+')}$`, 'i')
  return (text) => {
    if (text.length > 256) return null
    const match = regex.exec(text)
    return match === null ? null : build(match.groups ?? {})
  }
}

function literal(char: string): string {
  return /\s/.test(char) ? '\\s+' : char.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&')
}

function directive(letter: string, names: string[]): string {
  const piece = PIECES[letter]
  if (piece === undefined) throw new RangeError(`the directive %${letter} cannot be used to read a time`)
  // As in Python. Repeated pieces of variable length would also take exponential time to match.
  if (names.includes(letter)) throw new RangeError(`the directive %${letter} is used twice to read a time`)
  names.push(letter)
  return `(?<${letter}>${piece})`
}

function build(found: Found): DateTime | null {
  const day = dayOf(found)
  if (day === null) return null
  const fields = {
    ...day.fields,
    hour: hourOf(found),
    minute: Number(found.M ?? 0),
    second: Math.min(Number(found.S ?? 0), 59),
    micros: Number((found.f ?? '0').padEnd(6, '0')),
  }
  const offset = found.z === undefined ? (found.Z === undefined ? null : 0) : offsetOf(found.z.toUpperCase())
  try {
    return DateTime.fromFields(fields, offset)
  } catch {
    return null
  }
}

function dayOf(found: Found): CalendarDate | null {
  try {
    if (found.G !== undefined && found.V !== undefined)
      return weekDay(Number(found.G), Number(found.V), Number(found.u ?? 1))
    const year = yearOf(found)
    if (found.j !== undefined) return new CalendarDate(CalendarDate.fromFields(year, 1, 1).days + Number(found.j) - 1)
    return CalendarDate.fromFields(year, monthOf(found), Number(found.d ?? 1))
  } catch {
    return null
  }
}

function yearOf(found: Found): number {
  if (found.Y !== undefined) return Number(found.Y)
  if (found.y === undefined) return 1900
  const short = Number(found.y)
  return short <= 68 ? 2000 + short : 1900 + short
}

function monthOf(found: Found): number {
  if (found.m !== undefined) return Number(found.m)
  const name = (found.b ?? found.B)?.toLowerCase()
  if (name === undefined) return 1
  return MONTHS.findIndex((month) => month.toLowerCase().startsWith(name.slice(0, 3))) + 1
}

function hourOf(found: Found): number {
  if (found.H !== undefined) return Number(found.H)
  if (found.I === undefined) return 0
  const hour = Number(found.I) % 12
  return found.p?.toLowerCase() === 'pm' ? hour + 12 : hour
}
