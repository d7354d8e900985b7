/** Follows the cursor's values through records: which of them are new, and how far the read has come. */
import { createHash } from 'node:crypto'
import type { Json } from '../../json/json.ts'
import type { Cursor, CursorRange } from './cursor.ts'

/** What of the cursor matters for the records of a page. */
export interface CursorFilter {
  cursor: Cursor
  range: CursorRange
  /** The last value of the state, and hashes of the records that were read with it. */
  last: Json
  seen: ReadonlySet<string>
}

/** If more records than this share the highest value, only so many are listed, and the next read returns the others again. */
export const MAX_TIED = 5000

/** The highest value, and the hashes of the records that have it. */
export interface HighMark {
  highest: Json
  tied: readonly string[]
  /** Not all of them are listed. */
  over?: boolean
}

export const NO_MARK: HighMark = { highest: null, tied: [] }

export class CursorTracker {
  readonly field: readonly string[]
  /** Newest first: a record came that is older than the range. */
  reachedKnown = false
  readonly #filter: CursorFilter
  #highest: Json = null
  /** Hashed at the end: while records come in order, each has the highest value for a moment. */
  #tied: (() => string)[] = []
  #over = false

  constructor(filter: CursorFilter) {
    this.#filter = filter
    this.field = filter.cursor.field
  }

  get mark(): HighMark {
    return { highest: this.#highest, tied: this.#tied.map((hash) => hash()), ...(this.#over && { over: true }) }
  }

  /** Whether the record is new. `hash` identifies it among those of the same value. */
  admits(found: Json | undefined, hash: () => string): boolean {
    const { cursor, range, last, seen } = this.#filter
    const value = cursor.read(found)
    if (value === null) return cursor.skipsMissing !== true
    if (cursor.clientSide || cursor.newestFirst) {
      const older = range.lower !== null && cursor.compare(value, range.lower) < (cursor.open?.lower ? 1 : 0)
      if (older && cursor.newestFirst) this.reachedKnown = true
      if (older || (range.upper !== null && cursor.compare(value, range.upper) > (cursor.open?.upper ? -1 : 0)))
        return false
    }
    if (cursor.skipsSeen && last !== null && seen.size > 0 && cursor.compare(value, last) === 0 && seen.has(hash()))
      return false
    this.#rise(cursor, value, hash)
    return true
  }

  #rise(cursor: Cursor, value: Json, hash: () => string): void {
    const order = this.#highest === null ? 1 : cursor.compare(value, this.#highest)
    if (order < 0) return
    if (order > 0) {
      this.#highest = value
      this.#tied = []
      this.#over = false
    }
    if (!cursor.skipsSeen) return
    if (this.#tied.length < MAX_TIED) this.#tied.push(hash)
    else this.#over = true
  }
}

/** The higher of two marks; if they are equal, the records of both. */
export function raise(cursor: Cursor, mark: HighMark, other: HighMark): HighMark {
  if (other.highest === null) return mark
  if (mark.highest === null) return other
  const order = cursor.compare(other.highest, mark.highest)
  if (order !== 0) return order > 0 ? other : mark
  if (other.tied.length === 0) return mark
  const tied = [...new Set([...mark.tied, ...other.tied])]
  const over = mark.over || other.over || tied.length > MAX_TIED
  return { highest: mark.highest, tied: tied.slice(0, MAX_TIED), ...(over && { over }) }
}

export function hashRecord(record: Uint8Array | string): string {
  return createHash('sha1').update(record).digest('base64url').slice(0, 16)
}
