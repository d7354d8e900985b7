/** Values of JSON lines as SQLite stores them. */
import type { SQLInputValue } from 'node:sqlite'
import { decodeString } from '../../../json/fields.ts'
import type { TableColumn } from '../../database-file/table-plan.ts'
import { partsOf } from '../../types/column-types.ts'
import { fitsFloat64 } from '../../types/digits.ts'
import { kindOfString } from '../../types/iso-times.ts'
import { Kind } from '../../types/kinds.ts'

/** Takes the JSON of a value other than null, one character per byte. */
export type Convert = (raw: string) => SQLInputValue

const PLAIN = /^[\x20-\x7e]*$/

function textOf(raw: string): string {
  const inner = raw.slice(1, -1)
  return PLAIN.test(inner) && !inner.includes('\\') ? inner : decodeString(raw)
}

const isString = (raw: string): boolean => raw.charCodeAt(0) === 34
const isNumber = (raw: string): boolean => /^-?\d/.test(raw)
const isInteger = (raw: string): boolean => /^-?\d+$/.test(raw)

const utf8 = (raw: string): string => (PLAIN.test(raw) ? raw : Buffer.from(raw, 'latin1').toString('utf8'))
const anyText: Convert = (raw) => (isString(raw) ? textOf(raw) : utf8(raw))

/** Fifteen digits are exact in a double, and numbers are faster. */
const integer: Convert = (raw) => (raw.length <= 15 ? Number(raw) : isInteger(raw) ? BigInt(raw) : anyText(raw))
const real: Convert = (raw) => {
  if (!isString(raw)) return Number(raw)
  const text = textOf(raw)
  // SQLite turns NaN into NULL.
  return /^-?Infinity$/.test(text) ? Number(text) : text
}

const converters: Record<string, Convert> = {
  boolean: (raw) => (raw === 'true' ? 1 : raw === 'false' ? 0 : anyText(raw)),
  int64: integer,
  float64: real,
  decimal: (raw) => (isInteger(raw) ? integer(raw) : isNumber(raw) ? Number(raw) : anyText(raw)),
  timestamp: (raw) => {
    const text = String(anyText(raw))
    return text.length === 10 ? `${text} 00:00:00` : text.replace('T', ' ')
  },
  timestamptz: (raw) => toUtc(String(anyText(raw))),
  bytes: (raw) => {
    const text = String(anyText(raw))
    return /^\\x(?:[0-9a-f]{2})*$/i.test(text) ? Buffer.from(text.slice(2), 'hex') : text
  },
  json: utf8,
}

export function converterOf({ type, sql }: TableColumn): Convert {
  return sql.endsWith('TEXT') && type !== 'json' ? anyText : (converters[partsOf(type).base] ?? anyText)
}

/** Whether the value fits a column that may not change. */
export function testOf({ type, sql }: TableColumn): (raw: string) => boolean {
  const { base } = partsOf(type)
  const ofKind = (kinds: number) => (raw: string) => isString(raw) && (kindOf(raw) & kinds) !== 0
  switch (base) {
    case 'boolean':
      return (raw) => raw === 'true' || raw === 'false'
    case 'int64':
      return isInt64
    case 'float64':
      return (raw) => (isNumber(raw) ? fitsFloat64(raw) : /^"(NaN|-?Infinity)"$/.test(raw))
    case 'decimal':
      return (raw) => isNumber(raw) && (sql.endsWith('TEXT') || isInt64(raw) || fitsFloat64(raw))
    case 'date':
      return ofKind(Kind.date)
    case 'timestamp':
      return ofKind(Kind.date | Kind.timestamp)
    case 'timestamptz':
      return ofKind(Kind.timestamptz)
    case 'time':
    case 'uuid':
    case 'bytes':
      return isString
    default:
      return () => true
  }
}

function kindOf(raw: string): number {
  const bytes = Buffer.from(raw, 'latin1')
  return kindOfString(bytes, 1, bytes.length - 1)
}

function isInt64(raw: string): boolean {
  if (!isInteger(raw)) return false
  if (raw.length <= 18) return true
  const value = BigInt(raw)
  return value >= -(2n ** 63n) && value < 2n ** 63n
}

const INSTANT = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$/

/** One form for all, so that texts compare as instants do. */
function toUtc(text: string): string {
  const [, date, clock, fraction = '', zone] = INSTANT.exec(text) ?? []
  if (zone === undefined) return text
  if (zone === 'Z' || zone === '+00:00') return `${date} ${clock}${fraction}+00:00`
  const moment = new Date(`${date}T${clock}${zone}`).toISOString()
  // Before the year 0 it has a sign.
  return /^\d{4}-/.test(moment) ? `${moment.slice(0, 10)} ${moment.slice(11, 19)}${fraction}+00:00` : text
}
