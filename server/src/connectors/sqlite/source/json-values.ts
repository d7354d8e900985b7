/** Values as JSON, by the type of their column where they fit it and as what they are where they do not. */
import type { ColumnType } from '../../types/column-types.ts'
import { partsOf } from '../../types/column-types.ts'
import type { Value } from '../database.ts'
import { isJson, NUMBER } from './types.ts'

type Write = (value: NonNullable<Value>) => string

export function writerOf(type: ColumnType): Write {
  const { base } = partsOf(type)
  const writeText = textWriters[base] ?? JSON.stringify
  return (value) => {
    if (typeof value === 'string') return writeText(value)
    if (typeof value === 'bigint') return base === 'boolean' ? writeBoolean(value) : String(value)
    if (typeof value === 'number') return writeReal(value)
    return `"\\\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}"`
  }
}

const writeBoolean = (value: bigint): string => (value === 1n ? 'true' : value === 0n ? 'false' : String(value))

/** The shortest digits that parse back to the same number. */
function writeReal(value: number): string {
  if (Object.is(value, -0)) return '-0'
  return Number.isFinite(value) ? String(value) : `"${value}"`
}

const writeNumber = (text: string): string => (NUMBER.test(text) ? text : JSON.stringify(text))
const writeTime = (text: string): string => JSON.stringify(text.replace(/^(\d{4}-\d\d-\d\d) /, '$1T'))

const textWriters: Partial<Record<string, (text: string) => string>> = {
  decimal: writeNumber,
  timestamp: writeTime,
  timestamptz: writeTime,
  // Between values there may be newlines; within strings they are escaped.
  json: (text) => (isJson(text) ? text.replace(/[\r\n]/g, ' ') : JSON.stringify(text)),
}
