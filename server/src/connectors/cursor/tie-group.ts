/** The rows that share one cursor value: which of them were read before, and what to remember of them. */

import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import { LONGEST_VALUE, SEEN_BYTES, SEEN_LIMIT } from './cursor-state.ts'

export interface TieGroup {
  /** False for a row that an earlier read returned. */
  admit(cursor: string, identity: string): boolean
  /** Where a later read resumes after the rows admitted so far. */
  state(): { [name: string]: Json }
  /** Rows without a value. */
  readonly missing: number
  readonly overflown: boolean
}

interface TieOptions {
  /** The cursor's value, of the text that rows carry; called once for all rows in a row that have the same. */
  readCursor(text: string): string | null
  identity: string[]
  boundary: string | null
  known: string[]
  /** The read starts in the middle of the boundary's rows, so the earlier ones can no longer be listed. */
  inside: boolean
  /** Rows without a value that were read before; null where nobody knows. */
  missing: number | null
}

export function createTieGroup({
  readCursor,
  identity,
  boundary,
  known,
  inside,
  missing: before,
}: TieOptions): TieGroup {
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
    currentRaw = raw
    current = readCursor(raw)
    // What was read before stays in the set, or the next read would return it again.
    seen = current === boundary ? [...known] : []
    seenBytes = seen.reduce((sum, row) => sum + row.length, 0)
    overflown = inside && current === boundary
    last = ''
  }

  return {
    admit(raw, row) {
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
