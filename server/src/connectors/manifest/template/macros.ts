/** The functions that Airbyte adds to Jinja. */
import { randomUUID } from 'node:crypto'
import { CalendarDate, DateTime } from '../dates/datetime.ts'
import { formatTime, timeFormat } from '../dates/format.ts'
import { parseDuration, parseIso } from '../dates/iso.ts'
import { strftime } from '../dates/strftime.ts'
import { compileStrptime } from '../dates/strptime.ts'
import { bind, itemsOf, numberArgument, textArgument } from './arguments.ts'
import { compareOrder } from './operators.ts'
import {
  CalendarDuration,
  Callable,
  type Dict,
  float,
  isDict,
  isFloat,
  isNumber,
  type Named,
  numberOf,
  setKey,
  TemplateError,
  toText,
  Undefined,
  UndefinedUse,
  type Value,
  WrongType,
} from './values.ts'

type Macro = (args: Value[], named: Named) => Value

const MACROS: Record<string, Macro> = {
  now_utc: () => DateTime.now(),
  today_utc: () => dayOf(DateTime.now()),
  today_with_timezone: (args, named) =>
    todayIn(textArgument(bind('today_with_timezone', ['timezone'], args, named)[0], 'timezone')),
  timestamp: (args, named) => timestamp(bind('timestamp', ['dt'], args, named)[0]),
  str_to_datetime: (args, named) => readIso(bind('str_to_datetime', ['s'], args, named)[0]),
  max: (args) => extreme(args, 'max'),
  min: (args) => extreme(args, 'min'),
  day_delta: dayDelta,
  duration: (args, named) => duration(textArgument(bind('duration', ['datestring'], args, named)[0], 'duration')),
  format_datetime: formatDatetime,
  sanitize_url: (args, named) => quotePlus(textArgument(bind('sanitize_url', ['value'], args, named)[0], 'value')),
  camel_case_to_snake_case: (args, named) =>
    snakeCase(textArgument(bind('camel_case_to_snake_case', ['value'], args, named)[0], 'value')),
  generate_uuid: () => randomUUID(),
  // What Jinja itself defines, without `range`, `lipsum`, `cycler` and `joiner`.
  dict: (_, named) => ({ ...named }),
  namespace: (args, named) => {
    const made: Dict = {}
    for (const source of [...args, named]) {
      if (!isDict(source)) throw new WrongType('namespace needs a dict')
      for (const [key, value] of Object.entries(source)) setKey(made, key, value)
    }
    return made
  },
}

export const MACRO_VALUES: ReadonlyMap<string, Callable> = new Map(
  Object.entries(MACROS).map(([name, macro]) => [name, new Callable(macro)]),
)

export function dayOf(time: DateTime): CalendarDate {
  return new CalendarDate(Math.floor((time.seconds + (time.offset ?? 0)) / 86_400))
}

function todayIn(zone: string): CalendarDate {
  try {
    const parts = new Intl.DateTimeFormat('en-CA', { timeZone: zone }).format(new Date())
    const [year, month, day] = parts.split('-').map(Number) as [number, number, number]
    return CalendarDate.fromFields(year, month, day)
  } catch {
    throw new TemplateError(`the time zone ${JSON.stringify(zone)} is unknown`)
  }
}

/** A time in UTC; text without a zone is UTC. */
function readIso(value: Value | undefined): DateTime {
  if (value instanceof Undefined) throw new UndefinedUse(`'${value.name}' is undefined`)
  const text = textArgument(value, 'a date')
  const time = parseIso(text)
  if (time === null) throw new TemplateError(`${JSON.stringify(text)} is not an ISO 8601 date`)
  return new DateTime(time.seconds, time.micros, 0)
}

function timestamp(value: Value | undefined): Value {
  if (value !== undefined && isNumber(value)) return Math.trunc(numberOf(value))
  const time = readIso(value)
  return float(time.seconds + time.micros / 1_000_000)
}

function extreme(args: Value[], which: 'max' | 'min'): Value {
  const items = args.length === 1 ? itemsOf(args[0]!) : args
  if (items.length === 0) throw new TemplateError(`${which} of an empty list`)
  const sign = which === 'max' ? 1 : -1
  return items.reduce((best, item) => (sign * compareOrder(item, best) > 0 ? item : best))
}

function dayDelta(args: Value[], named: Named): Value {
  const [days, format] = bind('day_delta', ['num_days', 'format'], args, named)
  const micros = DateTime.now().epochMicros + numberArgument(days, 'num_days') * 86_400_000_000
  return strftime(
    DateTime.fromMicros(micros, 0),
    format === undefined ? '%Y-%m-%dT%H:%M:%S.%f%z' : textArgument(format, 'format'),
  )
}

function duration(text: string): Value {
  const parsed = parseDuration(text)
  if (parsed === null) throw new TemplateError(`${JSON.stringify(text)} is not an ISO 8601 duration`)
  return parsed.months === 0 ? parsed.delta : new CalendarDuration(parsed)
}

function formatDatetime(args: Value[], named: Named): Value {
  const [value, format, inputFormat] = bind('format_datetime', ['dt', 'format', 'input_format'], args, named)
  const pattern = textArgument(format, 'format')
  if (value instanceof DateTime) return strftime(value, pattern)
  const input = inputFormat === undefined || inputFormat === null ? null : textArgument(inputFormat, 'input_format')
  return formatTime(readTime(value, input), pattern)
}

function readTime(value: Value | undefined, format: string | null): DateTime {
  if (value !== undefined && isNumber(value) && !isFloat(value)) return parseWith(toText(value), format ?? '%s')
  if (format === null) return isEpoch(value) ? parseWith(value, '%s') : readIso(value)
  const text = textArgument(value, 'a date')
  const time = compileStrptime(format)(text)
  if (time === null)
    throw new TemplateError(`${JSON.stringify(text)} does not match the format ${JSON.stringify(format)}`)
  return time.offset === null ? new DateTime(time.seconds, time.micros, 0) : time
}

/** Seconds as text, as a state holds them: no ISO 8601 date has nine or ten digits. */
function isEpoch(value: Value | undefined): value is string {
  return typeof value === 'string' && /^\d{9,10}$/.test(value)
}

function parseWith(text: string, format: string): DateTime {
  const time = timeFormat(format).parse(text)
  if (time === null)
    throw new TemplateError(`${JSON.stringify(text)} does not match the format ${JSON.stringify(format)}`)
  return time
}

/** Python's `quote_plus`: a space becomes a plus, and only letters, digits and `_.-~` stay. */
function quotePlus(text: string): string {
  return quote(text, '').replaceAll('%20', '+')
}

export function quote(text: string, safe: string): string {
  const encoded = encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return safe.includes('/') ? encoded.replaceAll('%2F', '/') : encoded
}

function snakeCase(text: string): string {
  return text.replace(/(?<!^)(?=[A-Z])/g, '_').toLowerCase()
}
