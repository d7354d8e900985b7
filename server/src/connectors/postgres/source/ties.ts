/** The rows that share one cursor value: which of them were read before, and what to remember of them. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError, type Encoding } from '../../contract.ts'
import { unescapeField } from '../../types/tsv.ts'
import { LONGEST_VALUE, SEEN_BYTES, SEEN_LIMIT } from './cursor-state.ts'

export interface TieGroup {
  /** False for a row that an earlier read returned. */
  admit(bytes: Buffer, cursorAt: number, identityAt: number, end: number): boolean
  /** Where a later read resumes after the rows admitted so far. */
  state(): { [name: string]: Json }
  /** Rows without a value. */
  readonly missing: number
  readonly overflown: boolean
}

interface TieOptions {
  encoding: Encoding
  identity: string[]
  boundary: string | null
  known: string[]
  /** The read starts in the middle of the boundary's rows, so the earlier ones can no longer be listed. */
  inside: boolean
  /** Rows without a value that were read before; null where nobody knows. */
  missing: number | null
}

export function createTieGroup({ encoding, identity, boundary, known, inside, missing: before }: TieOptions): TieGroup {
  const decode = encoding === 'tsv' ? unescapeField : (text: string) => (text === '' ? null : text)
  const waiting = new Map<string, number>()
  for (const item of known) waiting.set(item, (waiting.get(item) ?? 0) + 1)
  let currentRaw: string | null = null
  let current: string | null = null
  let seen: string[] = []
  let seenBytes = 0
  let last = ''
  let lastCount = 0
  let missing = 0
  let overflown = false

  function begin(raw: string): void {
    const text = decode(raw)
    currentRaw = raw
    current = text === null ? null : readCursor(text)
    // What was read before stays in the set, or the next read would return it again.
    seen = current === boundary ? [...known] : []
    seenBytes = seen.reduce((sum, row) => sum + row.length, 0)
    overflown = inside && current === boundary
    last = ''
  }

  return {
    admit(bytes, cursorAt, identityAt, end) {
      const raw = bytes.toString('utf8', cursorAt, identityAt)
      const row = decode(bytes.toString('utf8', identityAt + 1, end)) ?? ''
      if (raw !== currentRaw) begin(raw)
      lastCount = row === last ? lastCount + 1 : 1
      last = row
      if (waiting.size > 0 && current === boundary) {
        const left = waiting.get(row) ?? 0
        if (left > 0) {
          waiting.set(row, left - 1)
          return false
        }
      }
      if (!overflown) {
        seenBytes += row.length
        if (seen.length < SEEN_LIMIT && seenBytes <= SEEN_BYTES) seen.push(row)
        else {
          overflown = true
          seen = []
        }
      }
      if (current === null) missing += 1
      return true
    },
    state() {
      refuseLongValue(current ?? '', 'The cursor')
      if (overflown) refuseLongValue(last, 'The primary key')
      const common = { cursor: current, identity, ...(before === null ? {} : { missing: before + missing }) }
      if (!overflown) return { ...common, seen: [...seen] }
      return { ...common, after: last, seen: new Array<string>(lastCount).fill(last) }
    },
    get missing() {
      return missing
    },
    get overflown() {
      return overflown
    },
  }
}

function refuseLongValue(value: string, what: string): void {
  if (value.length <= LONGEST_VALUE) return
  throw new ConnectorError(
    'limit',
    `${what} of a row is ${Math.ceil(value.length / 1024 / 1024)} MB long, too long to resume from; choose another config.sync.cursor_field, or read the stream by full_refresh.`,
  )
}

/** Strips the two hidden fields from every row, in place, and drops the rows that were read before. */
export function stripRows(bytes: Buffer, delimiter: number, group: TieGroup): { used: number; records: number } {
  let to = 0
  let records = 0
  let at = 0
  while (at < bytes.length) {
    const end = bytes.indexOf(10, at)
    const identityAt = bytes.lastIndexOf(delimiter, end)
    const cursorAt = bytes.lastIndexOf(delimiter, identityAt - 1)
    // Both were requested; without this check a malicious server could make us scan the page again for every row.
    if (cursorAt < at || identityAt <= cursorAt) throw withoutCursor()
    if (group.admit(bytes, cursorAt + 1, identityAt, end)) {
      bytes.copyWithin(to, at, cursorAt)
      to += cursorAt - at
      bytes[to++] = 10
      records += 1
    }
    at = end + 1
  }
  return { used: to, records }
}

/** A JSON string. */
function readCursor(text: string): string {
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
