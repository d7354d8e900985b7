/**
 * Airbyte's date formats: Python's directives, and a few of its own that stand for a whole number.
 *
 *   %s                   seconds since 1970                %s_as_float   the same with a fraction
 *   %ms                  milliseconds since 1970           %epoch_microseconds
 *   %_ms                 within a format: three digits of milliseconds
 */
import { DateTime, pad } from './datetime.ts'
import { strftime, unknownDirectives } from './strftime.ts'
import { compileStrptime } from './strptime.ts'

export interface TimeFormat {
  /** Null where the text is not a time of this format. A time without a zone is UTC. */
  parse(text: string): DateTime | null
  format(time: DateTime): string
  text: string
}

const MICROS: Record<string, number> = {
  '%s': 1_000_000,
  '%s_as_float': 1_000_000,
  '%ms': 1000,
  '%epoch_microseconds': 1,
}

/** A reader and writer of times; throws a RangeError for a format that cannot be used. */
export function timeFormat(format: string): TimeFormat {
  const micros = MICROS[format]
  if (micros !== undefined) return epochFormat(format, micros)
  const unknown = unknownDirectives(format.replaceAll('%_ms', '%f'))
  if (unknown.length > 0)
    throw new RangeError(`the date format "${format}" uses ${unknown.join(', ')}, which is unknown`)
  const parse = compileStrptime(format.replaceAll('%_ms', '%f'))
  return { text: format, parse: (text) => aware(parse(text)), format: (time) => formatTime(time, format) }
}

/** As `timeFormat`, for a format that is only written: it may hold directives that no parser has. */
export function formatTime(time: DateTime, format: string): string {
  const micros = MICROS[format]
  if (micros !== undefined) return epochFormat(format, micros).format(time)
  if (!format.includes('%_ms')) return strftime(time, format)
  const millis = pad(Math.floor(time.micros / 1000), 3)
  return strftime(time, format.replaceAll('%_ms', millis))
}

function epochFormat(text: string, micros: number): TimeFormat {
  const float = text === '%s_as_float'
  const pattern = float ? /^[+-]?\d+(\.\d*)?$/ : /^[+-]?\d+$/
  return {
    text,
    parse: (value) => {
      if (!pattern.test(value.trim()) || value.length > 40) return null
      const time = DateTime.fromMicros(Math.round(Number(value) * micros), 0)
      return Number.isFinite(time.seconds) && Math.abs(time.seconds) < 253_402_300_800 ? time : null
    },
    format: (time) => {
      if (float) return pythonFloat(time.seconds + time.micros / 1_000_000)
      return String(Math.trunc(time.epochMicros / micros))
    },
  }
}

function pythonFloat(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value)
}

function aware(time: DateTime | null): DateTime | null {
  if (time === null || time.offset !== null) return time
  return new DateTime(time.seconds, time.micros, 0)
}
