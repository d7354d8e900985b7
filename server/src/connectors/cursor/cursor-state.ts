/**
 * The cursor of an incremental read, as it is stored in marks and shown in the state of a pipeline:
 *
 *   cursor    the highest value read, as text; null while only rows without a value were read
 *   identity  the columns that distinguish rows with that same value: the key, or all columns
 *   seen      those of them that were read (key values as JSON, or a hash of the row); they are not read again
 *   after     if too many rows share the value to list them: the last one read, ordered by identity; `seen` then
 *             holds only the rows equal to it
 *   missing   how many rows without a value were read, in the first run; absent where nobody knows
 *
 * Only `cursor` is needed, so a person may set `{"cursor": "2024-01-01"}`.
 */

import type { Json } from '../../json/json.ts'
import { ConnectorError, type ReadContext } from '../contract.ts'

export interface CursorState {
  cursor: string | null
  identity?: string[]
  seen?: string[]
  after?: string
  missing?: number
}

/** If more rows share one value, or their keys are longer, they are not listed. */
export const SEEN_LIMIT = 5000
export const SEEN_BYTES = 1024 * 1024
/** A key or cursor value this long cannot be a position to resume from: every checkpoint stores it. */
export const LONGEST_VALUE = 1024 * 1024

export function readState(value: Json): CursorState | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'string' || typeof value === 'number') return { cursor: String(value) }
  if (typeof value === 'object' && !Array.isArray(value)) {
    const { cursor, identity, seen, after, missing } = value
    const valid =
      (cursor === null || typeof cursor === 'string' || typeof cursor === 'number') &&
      [identity, seen].every((list) => list === undefined || isTexts(list)) &&
      (after === undefined || typeof after === 'string') &&
      (missing === undefined || isCount(missing))
    if (valid) {
      return {
        cursor: cursor === null ? null : String(cursor),
        ...(isTexts(identity) ? { identity } : {}),
        ...(isTexts(seen) ? { seen } : {}),
        ...(typeof after === 'string' ? { after } : {}),
        ...(isCount(missing) ? { missing } : {}),
      }
    }
  }
  throw new ConnectorError(
    'config',
    'This is not a state of this source; it has the form {"cursor": "2024-01-31"}, with a value of the cursor_field.',
  )
}

/** `resumed` is null at the start of the run. */
export interface CursorStart {
  start: CursorState | null
  resumed: CursorState | null
}

/** Where a read starts: where an earlier attempt ended, at the beginning of its range, or at the state of the last run. */
export function readStart({ state, resume, range }: Pick<ReadContext, 'state' | 'resume' | 'range'>): CursorStart {
  const resumed = readState(resume)
  return { resumed, start: resumed ?? (range ? { cursor: String(range.from) } : readState(state)) }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
