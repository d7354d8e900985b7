/** The two hidden fields at the end of every row of an incremental read: the cursor's value and the row's identity. */
import { ConnectorError, type Encoding } from '../../contract.ts'
import type { TieGroup } from '../../cursor/tie-group.ts'
import { unescapeField } from '../../types/tsv.ts'

const decoders: Record<Encoding, (field: string) => string | null> = {
  tsv: unescapeField,
  ndjson: (field) => (field === '' ? null : field),
}

/** Strips the two hidden fields from every row, in place, and drops the rows that were read before. */
export function stripRows(bytes: Buffer, encoding: Encoding, group: TieGroup): { used: number; records: number } {
  const delimiter = encoding === 'tsv' ? 9 : 2
  const decode = decoders[encoding]
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

/** A JSON string, or nothing. */
export function readCursor(field: string, encoding: Encoding): string | null {
  const text = decoders[encoding](field)
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
