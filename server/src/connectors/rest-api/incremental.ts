/** The incremental of dlt as a cursor: what is older than the last value is left out, whatever the API sends. */
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import type { Cursor, CursorRange } from '../http/cursor.ts'
import type { Fields, Injection } from '../http/scope.ts'
import { fault } from './fault.ts'
import { parseValuePath } from './json-path.ts'
import type { IncrementalSettings } from './settings.ts'

const DATE = /^\d{4}-\d{2}-\d{2}$/
const TIME = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}/
const DAY_MS = 86_400_000

type Convert = (value: Json) => Json

/** `lookbackSeconds` is that of the pipeline. */
export function compileIncremental(settings: IncrementalSettings, at: string, lookbackSeconds: number): Cursor {
  const field = parseValuePath(settings.cursor_path, `${at}.cursor_path`)
  const { initial_value, end_value, lag = 0, on_cursor_value_missing: missing = 'raise' } = settings
  const convert = compileConvert(settings.convert, `${at}.convert`)
  if (initial_value !== undefined && end_value !== undefined && initial_value !== null && end_value !== null)
    requireOrder(initial_value, end_value, at)
  const inject: { field: string; at: Injection }[] = []
  if (settings.start_param) inject.push({ field: 'start_value', at: { into: 'param', path: [settings.start_param] } })
  if (settings.end_param) inject.push({ field: 'end_value', at: { into: 'param', path: [settings.end_param] } })
  if (settings.end_param && end_value === undefined) throw fault(`${at}.end_param`, 'needs an end_value')
  const overlap = Math.max(lag, lookbackSeconds)
  return {
    field,
    read: (value) => readValue(value, settings.cursor_path, missing),
    compare: compareValues,
    range: (last) => ({
      lower: last === null ? (initial_value ?? null) : subtract(last, lag, lookbackSeconds),
      upper: end_value ?? null,
    }),
    within: ({ from, to }) => ({ lower: from, upper: to }),
    split: ({ lower, upper }: CursorRange): Fields[] => [
      {
        start_value: convert(lower),
        last_value: convert(lower),
        initial_value: convert(initial_value ?? null),
        end_value: convert(upper),
      },
    ],
    inject,
    clientSide: true,
    newestFirst: settings.row_order === 'desc',
    global: false,
    skipsSeen: overlap === 0 && settings.range_start !== 'open',
    open: { lower: settings.range_start === 'open' && overlap === 0, upper: settings.range_end !== 'closed' },
  }
}

function readValue(value: Json | undefined, path: string, missing: string): Json {
  if (typeof value === 'string' || typeof value === 'number') return value
  if (value !== undefined && value !== null)
    throw new ConnectorError('source', `A record has neither text nor a number at the cursor ${path}.`)
  if (missing === 'include') return null
  throw new ConnectorError(
    'source',
    `A record has no value at the cursor ${path}; check cursor_path, or set on_cursor_value_missing to include or exclude.`,
  )
}

/** Numbers as numbers, everything else as text, as dlt compares what JSON gives it. */
function compareValues(a: Json, b: Json): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (typeof a !== typeof b)
    throw new ConnectorError(
      'source',
      `Cursor values of different kinds cannot be compared: ${show(a)} and ${show(b)}.`,
    )
  const [first, second] = [String(a), String(b)]
  return first < second ? -1 : first > second ? 1 : 0
}

const show = (value: Json): string => JSON.stringify(value).slice(0, 60)

function requireOrder(initial: Json, end: Json, at: string): void {
  if (typeof initial !== typeof end) throw fault(`${at}.end_value`, 'must be of the same kind as initial_value')
  if (compareValues(initial, end) >= 0) throw fault(`${at}.end_value`, 'must come after initial_value')
}

function subtract(last: Json, lag: number, lookbackSeconds: number): Json {
  if (lag === 0 && lookbackSeconds === 0) return last
  if (typeof last === 'number') {
    if (lookbackSeconds > 0)
      throw new ConnectorError(
        'config',
        'config.sync.lookback_seconds needs a cursor that is a time; for a number give lag in the incremental.',
      )
    return last - lag
  }
  const text = String(last)
  const isDate = DATE.test(text)
  const time = isDate || TIME.test(text) ? Date.parse(isDate || hasZone(text) ? text : `${text}Z`) : Number.NaN
  if (Number.isNaN(time))
    throw new ConnectorError(
      'config',
      `The cursor value ${show(last)} is not a time, so there is no past of it to read again.`,
    )
  const ms = Math.max(lag * (isDate ? DAY_MS : 1000), lookbackSeconds * 1000)
  return writeLike(text, time - ms, isDate)
}

const hasZone = (text: string): boolean => /(Z|[+-]\d{2}:?\d{2})$/i.test(text)

/** In the form of the value, so that both compare as text. */
function writeLike(text: string, time: number, isDate: boolean): string {
  const iso = new Date(time).toISOString()
  if (isDate) return iso.slice(0, 10)
  const fraction = /\.(\d+)/.exec(text)?.[1]?.length ?? 0
  const zone = hasZone(text) ? (text.endsWith('Z') ? 'Z' : '+00:00') : ''
  const seconds = fraction === 0 ? iso.slice(0, 19) : `${iso.slice(0, 23)}000000`.slice(0, 20 + fraction)
  return `${seconds.replace('T', text[10]!)}${zone}`
}

const CONVERTERS: Record<string, Convert> = {
  epoch_seconds: (value) => Math.floor(toTime(value) / 1000),
  epoch_milliseconds: (value) => toTime(value),
  iso: (value) => new Date(typeof value === 'number' ? value * 1000 : toTime(value)).toISOString(),
  date: (value) => new Date(toTime(value)).toISOString().slice(0, 10),
  integer: (value) => Math.trunc(Number(value)),
  string: (value) => (typeof value === 'string' ? value : JSON.stringify(value)),
}

function compileConvert(name: string | undefined, at: string): Convert {
  if (name === undefined) return (value) => value
  const convert = Object.hasOwn(CONVERTERS, name) ? CONVERTERS[name]! : null
  if (convert === null)
    throw fault(at, `must be one of ${Object.keys(CONVERTERS).join(', ')}; Python functions are not executed here`)
  return (value) => (value === null ? null : convert(value))
}

/** Numbers are seconds since 1970, or milliseconds where they are too large for that. */
function toTime(value: Json): number {
  const number = typeof value === 'number' ? value : Number.NaN
  const time = Number.isNaN(number) ? Date.parse(String(value)) : number > 100_000_000_000 ? number : number * 1000
  if (Number.isFinite(time)) return time
  throw new ConnectorError('config', `The cursor value ${show(value)} is not a time, so it cannot be converted.`)
}
