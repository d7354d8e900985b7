/** The two hidden fields at the end of every row of an incremental read: the cursor's value and the row's identity. */
import { ConnectorError } from '../../contract.ts'
import type { TieGroup } from '../../cursor/tie-group.ts'
import { unescapeField } from '../../types/tsv.ts'
import type { RowForm } from './projection.ts'

const emptyIsNull = (field: string): string | null => (field === '' ? null : field)

const decoders: Record<RowForm, (field: string) => string | null> = {
  tsv: unescapeField,
  ndjson: emptyIsNull,
  pgcopy: emptyIsNull,
}

/** Strips the two hidden fields from every row, in place, and drops the rows that were read before. */
export function stripRows(bytes: Buffer, form: RowForm, group: TieGroup): { used: number; records: number } {
  if (form === 'pgcopy') return stripBinaryRows(bytes, group)
  const delimiter = form === 'tsv' ? 9 : 2
  const decode = decoders[form]
  let to = 0
  let records = 0
  let at = 0
  while (at < bytes.length) {
    const end = bytes.indexOf(10, at)
    const identityAt = bytes.lastIndexOf(delimiter, end)
    const cursorAt = bytes.lastIndexOf(delimiter, identityAt - 1)
    // Both were requested; without this check a malicious server could make us scan the page again for every row.
    if (cursorAt < at || identityAt <= cursorAt) throw withoutCursor()
    const cursor = bytes.toString('utf8', cursorAt + 1, identityAt)
    const identity = decode(bytes.toString('utf8', identityAt + 1, end)) ?? ''
    if (group.admit(cursor, identity)) {
      bytes.copyWithin(to, at, cursorAt)
      to += cursorAt - at
      bytes[to++] = 10
      records += 1
    }
    at = end + 1
  }
  return { used: to, records }
}

/** The same for rows in binary form: the number of fields, then each as its length and its bytes. */
function stripBinaryRows(bytes: Buffer, group: TieGroup): { used: number; records: number } {
  let to = 0
  let records = 0
  let at = 0
  while (at < bytes.length) {
    const kept = readInt16(bytes, at) - 2
    let cursorAt = at + 2
    for (let field = 0; field < kept; field += 1) cursorAt = skipField(bytes, cursorAt)
    const identityAt = skipField(bytes, cursorAt)
    const end = skipField(bytes, identityAt)
    if (kept < 1) throw withoutCursor()
    const cursor = bytes.toString('utf8', cursorAt + 4, identityAt)
    const identity = bytes.toString('utf8', identityAt + 4, end)
    if (group.admit(cursor, identity)) {
      bytes.copyWithin(to, at, cursorAt)
      bytes.writeInt16BE(kept, to)
      to += cursorAt - at
      records += 1
    }
    at = end
  }
  return { used: to, records }
}

function readInt16(bytes: Buffer, at: number): number {
  if (at + 2 > bytes.length) throw withoutCursor()
  return bytes.readInt16BE(at)
}

/** Where the next field begins. Null has the length -1 and no bytes. */
function skipField(bytes: Buffer, at: number): number {
  if (at + 4 > bytes.length) throw withoutCursor()
  const length = bytes.readInt32BE(at)
  const end = at + 4 + Math.max(length, 0)
  if (length < -1 || end > bytes.length) throw withoutCursor()
  return end
}

/** A JSON string, or nothing. */
export function readCursor(field: string, form: RowForm): string | null {
  const text = decoders[form](field)
  if (text === null) return null
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'string') return value
  } catch {
    // Not a value that PostgreSQL produced.
  }
  throw withoutCursor()
}

function withoutCursor(): ConnectorError {
  return new ConnectorError('source', 'The server sent a row without the requested cursor value')
}
