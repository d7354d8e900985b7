/**
 * The types of columns. SQLite has none: a column declares a name for its type, and any value can be stored in it all the
 * same. So the declaration counts if the first rows agree with it; otherwise the column has the type of those rows. A value
 * further down that does not fit is read as what it is, and the destination widens its column.
 */
import type { ColumnType } from '../../types/column-types.ts'
import { partsOf } from '../../types/column-types.ts'
import { countDigits } from '../../types/digits.ts'
import type { Value } from '../database.ts'

/** How many rows are compared with the declarations. */
export const SAMPLE_ROWS = 1000

const named: Record<string, ColumnType[]> = {
  BOOLEAN: ['boolean'],
  BOOL: ['boolean'],
  DATE: ['date', 'timestamp'],
  TIME: ['time'],
  DATETIME: ['timestamp', 'timestamptz'],
  TIMESTAMP: ['timestamp', 'timestamptz'],
  TIMESTAMPTZ: ['timestamptz', 'timestamp'],
  'TIMESTAMP WITH TIME ZONE': ['timestamptz', 'timestamp'],
  UUID: ['uuid'],
  GUID: ['uuid'],
  INTERVAL: ['interval'],
  DECIMAL: ['decimal'],
  'DECIMAL TEXT': ['decimal'],
  NUMERIC: ['decimal'],
  NUMBER: ['decimal'],
}

/** What a declaration may mean, the likeliest first. The last rules are SQLite's own, for affinities. */
function meanings(declared: string): ColumnType[] {
  const name = declared.toUpperCase().trim().replace(/\s+/g, ' ')
  if (name.includes('JSON')) return ['json']
  const decimal = /^(?:DECIMAL|NUMERIC|NUMBER)(?: ?\((\d{1,4})(?:, ?(\d{1,4}))?\))( TEXT)?$/.exec(name)
  if (decimal) {
    const [precision, scale] = [Number(decimal[1]), Number(decimal[2] ?? 0)]
    return precision >= 1 && scale <= precision ? [`decimal(${precision},${scale})`, 'decimal'] : ['decimal']
  }
  const known = named[name.replace(/ ?\(.*\)$/, '')]
  if (known) return known
  if (name.includes('INT')) return ['int64']
  if (/CHAR|CLOB|TEXT/.test(name)) return ['text']
  if (name.includes('BLOB')) return ['bytes']
  return /REAL|FLOA|DOUB/.test(name) ? ['float64'] : []
}

export function chooseType(declared: string, values: readonly Value[]): ColumnType {
  const given = values.filter((value) => value !== null)
  const candidates = meanings(declared)
  if (given.length === 0) return candidates[0] ?? 'text'
  return [...candidates, ...NATURAL].find((type) => given.every((value) => fits(type, value))) ?? 'text'
}

/** For rows that their declaration does not describe. Anything fits text. */
const NATURAL: ColumnType[] = ['int64', 'float64', 'decimal', 'bytes']

const forms: Partial<Record<string, RegExp>> = {
  date: /^\d{4}-\d\d-\d\d$/,
  time: /^\d\d:\d\d:\d\d(\.\d{1,6})?$/,
  timestamp: /^\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?$/,
  timestamptz: /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$/,
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  interval: /^./s,
}

export const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

function fits(type: ColumnType, value: NonNullable<Value>): boolean {
  const { base, precision, scale = 0 } = partsOf(type)
  switch (base) {
    case 'boolean':
      return value === 0n || value === 1n
    case 'int64':
      return typeof value === 'bigint'
    case 'float64':
      return typeof value === 'number' || value === 'NaN'
    case 'decimal':
      return isDecimal(value, precision === undefined ? null : { whole: precision - scale, scale })
    case 'bytes':
      return typeof value === 'object'
    case 'json':
      return typeof value === 'string' && isJson(value)
    case 'text':
      return typeof value === 'string'
    default:
      return typeof value === 'string' && forms[base]!.test(value)
  }
}

function isDecimal(value: NonNullable<Value>, most: { whole: number; scale: number } | null): boolean {
  if (typeof value === 'object' || (typeof value === 'string' && !NUMBER.test(value))) return false
  const digits = countDigits(String(value))
  return digits !== null && (most === null || (digits.whole <= most.whole && digits.scale <= most.scale))
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
