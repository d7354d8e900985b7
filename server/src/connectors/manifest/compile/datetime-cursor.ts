/**
 * DatetimeBasedCursor: ranges of time. Values are kept in the state as the text of `datetime_format`.
 *
 * The range goes from the last value, less the lookback, but never before the start, to the end. Its pieces are a step long
 * and, but for the last one, end one granule before the next begins.
 */

import type { Json } from '../../../json/json.ts'
import { ConnectorError, type ReadRange } from '../../contract.ts'
import type { Cursor, CursorRange } from '../../http/cursor.ts'
import type { Fields } from '../../http/scope.ts'
import { type Component, flag, given, isComponent, optionalText, refuse, text } from '../component.ts'
import { DateTime, Delta } from '../dates/datetime.ts'
import { type TimeFormat, timeFormat } from '../dates/format.ts'
import { type IsoDuration, parseDuration } from '../dates/iso.ts'
import { Unsupported } from '../problems.ts'
import { type Clamping, clampOf } from './clamping.ts'
import type { Environment } from './environment.ts'
import { optionalInjection } from './injection.ts'
import { type Site, settingText, textValue } from './templates.ts'

const MOST_INTERVALS = 100_000
const EXACT = timeFormat('%Y-%m-%dT%H:%M:%S.%f%z')

interface Clock {
  format: TimeFormat
  inputs: TimeFormat[]
  start: () => DateTime
  end: () => DateTime
  step: () => IsoDuration | null
  granularity: IsoDuration | null
  lookback: () => IsoDuration | null
  clamping: Clamping | null
}

/** `divided` false: the range is one piece, whatever the step. */
export function compileDatetimeCursor(cursor: Component, environment: Environment, divided = true): Cursor {
  refuse(cursor, ['allow_catalog_defined_cursor_field'])
  const site: Site = { environment, owner: cursor, known: 'config' }
  const clock = { ...compileClock(cursor, site), ...(divided ? {} : { step: () => null }) }
  const field = (name: string, usual: string): string => settingText(optionalText(cursor, name) ?? usual, site)
  const [startField, endField] = [
    field('partition_field_start', 'start_time'),
    field('partition_field_end', 'end_time'),
  ]
  const feed = flag(cursor, 'is_data_feed')
  const startAt = optionalInjection(cursor, 'start_time_option', environment)
  const endAt = optionalInjection(cursor, 'end_time_option', environment)
  const interval = (lower: DateTime, upper: DateTime): Fields => ({
    [startField]: clock.format.format(lower),
    [endField]: clock.format.format(upper),
  })
  return {
    field: [settingText(text(cursor, 'cursor_field'), site)],
    read: (value) => readValue(clock, value),
    compare: (a, b) => momentOf(clock, a).compare(momentOf(clock, b)),
    range: (last) => rangeOf(clock, last),
    within: (range) => boundsOf(clock, range),
    split: (range) => splitRange(clock, range, interval),
    narrow: (piece, from) => ({ ...piece, [startField]: clock.format.format(momentOf(clock, from)) }),
    inject: [
      ...(startAt === null ? [] : [{ field: startField, at: startAt }]),
      ...(endAt === null ? [] : [{ field: endField, at: endAt }]),
    ],
    clientSide: feed || flag(cursor, 'is_client_side_incremental'),
    newestFirst: feed,
    global: flag(cursor, 'global_substream_cursor'),
    ...(flag(cursor, 'is_compare_strictly') && { open: { lower: true, upper: false } }),
    skipsSeen: optionalText(cursor, 'lookback_window') === null,
  }
}

function compileClock(cursor: Component, site: Site): Clock {
  const name = text(cursor, 'datetime_format')
  const inputs = given(cursor, 'cursor_datetime_formats')
  if (inputs !== undefined && !Array.isArray(inputs))
    throw new Unsupported('DatetimeBasedCursor.cursor_datetime_formats is not a list')
  const [step, granularity] = [optionalText(cursor, 'step'), optionalText(cursor, 'cursor_granularity')]
  if ((step === null) !== (granularity === null)) {
    throw new Unsupported('DatetimeBasedCursor needs both step and cursor_granularity, or neither')
  }
  const format = knownFormat(name)
  const start = given(cursor, 'start_datetime')
  if (start === undefined) throw new Unsupported('DatetimeBasedCursor has no start_datetime')
  const end = given(cursor, 'end_datetime')
  return {
    format,
    inputs: inputs === undefined || inputs.length === 0 ? [format] : inputs.map((input) => knownFormat(String(input))),
    start: compileMoment(start, name, site),
    end: end === undefined || end === '' ? () => DateTime.now() : compileMoment(end, name, site),
    step: step === null ? () => null : laterDuration(step, site),
    granularity: granularity === null ? null : durationOf(granularity),
    lookback: laterDuration(optionalText(cursor, 'lookback_window') ?? '', site),
    clamping: clampOf(cursor, site),
  }
}

function knownFormat(source: string): TimeFormat {
  try {
    return timeFormat(source)
  } catch (error) {
    throw new Unsupported(error instanceof Error ? error.message : 'a date format is invalid')
  }
}

/** MinMaxDatetime, or a template that gives a moment. */
function compileMoment(source: Json, inherited: string, site: Site): () => DateTime {
  if (typeof source === 'string') return readMoment(source, knownFormat(inherited), site)
  if (!isComponent(source) || source.type !== 'MinMaxDatetime')
    throw new Unsupported('a moment is not a MinMaxDatetime')
  const inner: Site = { ...site, owner: source }
  const format = knownFormat(optionalText(source, 'datetime_format') || inherited || '%Y-%m-%dT%H:%M:%S.%f%z')
  const moment = readMoment(text(source, 'datetime'), format, inner)
  const [least, most] = ['min_datetime', 'max_datetime'].map((field) => {
    const limit = optionalText(source, field)
    return limit === null || limit === '' ? null : optionalMoment(limit, format, inner)
  })
  return () => {
    const [floor, ceiling] = [least?.() ?? null, most?.() ?? null]
    let time = moment()
    if (floor !== null && time.compare(floor) < 0) time = floor
    if (ceiling !== null && time.compare(ceiling) > 0) time = ceiling
    return time
  }
}

function readMoment(source: string, format: TimeFormat, site: Site): () => DateTime {
  const read = optionalMoment(source, format, site)
  return () => {
    const time = read()
    if (time === null)
      throw new ConnectorError('config', `the date ${source.trim()} of the cursor is empty; set it in the settings`)
    return time
  }
}

function optionalMoment(source: string, format: TimeFormat, site: Site): () => DateTime | null {
  const value = textValue(source, site)
  return () => {
    const written = value(null)
    if (written === '') return null
    const time = format.parse(written)
    if (time === null) {
      throw new ConnectorError(
        'config',
        `${JSON.stringify(written.slice(0, 60))} does not have the date format ${format.text}`,
      )
    }
    return time
  }
}

function laterDuration(source: string, site: Site): () => IsoDuration | null {
  if (source === '') return () => null
  const value = textValue(source, site)
  return () => {
    const written = value(null)
    return written === '' ? null : durationOf(written)
  }
}

function durationOf(source: string): IsoDuration {
  const duration = parseDuration(source)
  if (duration === null) throw new Unsupported(`${JSON.stringify(source)} is not an ISO 8601 duration`)
  return duration
}

function readValue({ inputs, format }: Clock, value: Json | undefined): Json {
  if (value === undefined || value === null || value === '') return null
  const written = typeof value === 'object' && 'rawJSON' in value ? String(value.rawJSON) : String(value)
  // Python's int() drops the fraction of a number, but refuses that of a text.
  const whole = typeof value === 'number' ? String(Math.trunc(value)) : written
  for (const input of inputs) {
    const time = input.parse(written) ?? input.parse(whole)
    if (time !== null) return format.format(time)
  }
  throw new ConnectorError(
    'source',
    `the cursor value ${JSON.stringify(written.slice(0, 60))} has none of the date formats ${inputs.map((input) => input.text).join(', ')}`,
  )
}

function momentOf({ format, inputs }: Clock, value: Json): DateTime {
  const written = String(value)
  for (const known of [format, ...inputs, EXACT]) {
    const time = known.parse(written)
    if (time !== null) return time
  }
  throw new ConnectorError(
    'config',
    `the state or the range holds ${JSON.stringify(written.slice(0, 60))}, which does not have the date format ${format.text}`,
  )
}

/** Both ends as text; a range without moments, because its start is not before its end, has a null end of its own. */
function rangeOf(clock: Clock, last: Json): CursorRange {
  const start = clock.start()
  const end = clock.clamping === null ? clock.end() : clock.clamping.end(clock.end())
  const lookback = clock.lookback()
  let lower = start
  if (last !== null) {
    const from = momentOf(clock, last)
    const back = lookback === null ? from : moved(from, lookback, -1)
    if (back.compare(start) > 0) lower = back
  }
  return { lower: exact(lower), upper: exact(end) }
}

/** Whole weeks or months would begin before the range or end after it, and which of both depends on the API. */
function boundsOf(clock: Clock, { from, to }: ReadRange): CursorRange {
  if (clock.clamping !== null)
    throw new ConnectorError('config', 'This stream is read in whole periods (clamping), which a range cannot divide.')
  return { lower: exact(momentOf(clock, from)), upper: exact(momentOf(clock, to)) }
}

/** Moments are kept to the microsecond between `range` and `split`, since a format may drop hours or fractions. */
function exact(time: DateTime): string {
  return time.in(0).iso('T', 'microseconds')
}

function* splitRange(
  clock: Clock,
  range: CursorRange,
  interval: (lower: DateTime, upper: DateTime) => Fields,
): Iterable<Fields> {
  const lower = EXACT.parse(String(range.lower))!
  const upper = EXACT.parse(String(range.upper))!
  if (lower.compare(upper) >= 0) return
  const step = clock.step()
  const clamp = (time: DateTime): DateTime => (clock.clamping === null ? time : clock.clamping.clamp(time))
  let from = lower
  for (let count = 0; ; count++) {
    if (count > MOST_INTERVALS)
      throw new ConnectorError('config', `the cursor's step divides its range into more than ${MOST_INTERVALS} pieces`)
    const next = step === null ? upper : moved(from, step, 1)
    const last = step === null || next.compare(upper) >= 0 || next.compare(from) <= 0
    const to = last ? upper : clamp(next)
    const begin = clamp(from)
    if (begin.compare(to) >= 0) return
    yield interval(begin, last || clock.granularity === null ? to : moved(to, clock.granularity, -1))
    if (last) return
    from = to
  }
}

function moved(time: DateTime, { months, delta }: IsoDuration, sign: 1 | -1): DateTime {
  const shifted = months === 0 ? time : time.plusMonths(sign * months)
  return shifted.plus(sign === 1 ? delta : Delta.of(-delta.seconds, -delta.micros))
}
