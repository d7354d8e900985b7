/**
 * The ledger: what a source produced against what arrived, by a checksum per row. Rows are JSON texts; what a faithful
 * copy may change (order of keys, notation of a number or of a timestamp, null or a missing field) is normalized first,
 * with every digit kept.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'

/** Fails with the first rows that are missing, duplicated or unexpected. Order does not matter. */
export function assertSameRows(actual: readonly string[], expected: readonly string[], message = 'rows'): void {
  const left = new Map<string, { count: number; row: string }>()
  for (const row of expected) {
    const sum = checksum(row)
    const entry = left.get(sum)
    if (entry) entry.count++
    else left.set(sum, { count: 1, row })
  }
  const extra: string[] = []
  for (const row of actual) {
    const entry = left.get(checksum(row))
    if (entry && entry.count > 0) entry.count--
    else extra.push(row)
  }
  const missing = [...left.values()].filter((entry) => entry.count > 0).map((entry) => entry.row)
  if (missing.length === 0 && extra.length === 0) return
  const show = (rows: string[]): string =>
    rows
      .slice(0, 3)
      .map((row) => `\n    ${levelRow(row).slice(0, 300)}`)
      .join('')
  assert.fail(
    `${message}: ${actual.length} rows arrived, ${expected.length} were expected; ` +
      `${missing.length} missing${show(missing)}\n  ${extra.length} unexpected or doubled${show(extra)}`,
  )
}

export function checksum(row: string): string {
  return createHash('sha256').update(levelRow(row)).digest('hex')
}

/** The row in a canonical form. */
export function levelRow(row: string): string {
  const parsed = JSON.parse(row, function (this: unknown, _key: string, value: unknown, context?: { source?: string }) {
    return typeof value === 'number' ? { number: levelNumber(context?.source ?? String(value)) } : value
  } as (key: string, value: unknown) => unknown) as Record<string, unknown>
  return write(Object.fromEntries(Object.entries(parsed).filter(([, value]) => value !== null)))
}

function write(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(levelTime(value))
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`
  const fields = value as Record<string, unknown>
  if (typeof fields.number === 'string' && Object.keys(fields).length === 1) return fields.number
  const keys = Object.keys(fields).sort()
  return `{${keys.map((key) => `${JSON.stringify(key)}:${write(fields[key])}`).join(',')}}`
}

/** Digits and exponent without leading and trailing zeros: 1.50, 15e-1 and 1.5 are the same, 1.51 is not. */
export function levelNumber(source: string): string {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source)
  if (!match) return source
  const [, sign, whole, fraction = '', exponent = '0'] = match
  const all = `${whole}${fraction}`.replace(/^0+/, '')
  const digits = all.replace(/0+$/, '')
  if (digits === '') return '0'
  return `${sign}${digits}e${Number(exponent) - fraction.length + all.length - digits.length}`
}

function levelTime(text: string): string {
  const match = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d(?::?\d\d)?(?::\d\d)?)$/.exec(text)
  if (!match) return text
  const [, date, time, fraction = '', zone] = match
  const offset = zone === 'Z' ? '+00:00' : zone!.length === 3 ? `${zone}:00` : zone!
  const seconds = Date.parse(`${date}T${time}${offset.slice(0, 6)}`)
  return Number.isNaN(seconds)
    ? text
    : `${new Date(seconds).toISOString().slice(0, 19)}.${fraction.replace(/0+$/, '')}Z`
}
