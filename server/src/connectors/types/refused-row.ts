/**
 * A row that a destination refused, as the JSON of a record. Its values may be the very reason why it was refused, so none of
 * them is trusted to be of its column's type: what cannot be written as such becomes a string.
 */
import type { ColumnType } from './column-types.ts'
import { unescapeField } from './tsv.ts'
import { writerOf } from './tsv-records.ts'

interface NamedColumn {
  name: string
  type: ColumnType
}

/** `fields` are texts of the contract, null for null. */
export function writeRefused(columns: readonly NamedColumn[], fields: readonly (string | null)[]): string {
  const members = columns.map(({ name, type }, at) => {
    const text = fields[at] ?? null
    return `${JSON.stringify(name)}:${text === null ? 'null' : writeValue(type, text)}`
  })
  return `{${members.join(',')}}`
}

/** A row of tab-separated text, without its newline. */
export function writeRefusedRow(columns: readonly NamedColumn[], row: string): string {
  return writeRefused(columns, columns.length === 0 ? [] : row.split('\t').map(unescapeField))
}

function writeValue(type: ColumnType, text: string): string {
  // JSON lines become rows with the words of JSON.
  if (type === 'boolean') return { t: 'true', f: 'false', true: 'true', false: 'false' }[text] ?? JSON.stringify(text)
  try {
    const written = writerOf(type)(text)
    // A json column may be given anything, and a list too.
    JSON.parse(written)
    return written
  } catch {
    return JSON.stringify(text)
  }
}
