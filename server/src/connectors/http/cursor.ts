/**
 * The cursor of an incremental read: which values records have, and which range of them the next read asks for. Values are
 * kept in the state as JSON, in the form that the API takes.
 */
import type { Json } from '../../json/json.ts'
import { ConnectorError, type ReadRange } from '../contract.ts'
import type { Fields, Injection, Scope } from './scope.ts'

export interface Cursor {
  /** The path of the field in a record. */
  field: readonly string[]
  /**
   * What the record has there (undefined: nothing) in the form of the state, or null if it has no value. Throws where it is
   * not of the right form.
   */
  read(value: Json | undefined): Json
  /** Negative if `a` comes before `b`. */
  compare(a: Json, b: Json): number
  /**
   * The range to read, given the last value (null: the first read). Evaluated once per partition and kept, so that a read
   * that is resumed has the same intervals.
   */
  range(last: Json, scope: Scope): CursorRange
  /** The range of a back-fill, of values that a person gave. Absent: there is none. Throws where they have another form. */
  within?(range: ReadRange): CursorRange
  /**
   * The range in pieces, in order, as fields of `scope.interval`; the same for the same range. One empty interval if nothing
   * is to be divided.
   */
  split(range: CursorRange): Iterable<Fields>
  /** The rest of an interval from a value on, for APIs that return only so many pages of one. */
  narrow?(interval: Fields, from: Json): Fields
  /** Which fields of the interval go where in a request. */
  inject: ReadonlyArray<{ field: string; at: Injection }>
  /** The API cannot filter: records outside of the range are left out here. */
  clientSide: boolean
  /** Ends that do not belong to the range, where records are left out here. */
  open?: { lower: boolean; upper: boolean }
  /** Records come newest first: pages are read until one is older than the range. Goes with `clientSide`. */
  newestFirst: boolean
  /** One value for all partitions instead of one for each. */
  global: boolean
  /**
   * The last value is read again, because the range includes its start: records that were read with exactly that value are
   * recognised and left out. False where the range overlaps by intention (a lookback).
   */
  skipsSeen: boolean
  /** Of a back-fill: a record without a value is in no range. */
  skipsMissing?: boolean
}

/** Null: no limit. Both ends belong to it, unless the cursor says otherwise. */
export interface CursorRange {
  lower: Json
  upper: Json
}

/** The cursor of a back-fill. What the API returns beyond the range is left out here: nobody knows which ends it includes. */
export function boundCursor(cursor: Cursor, range: ReadRange): Cursor {
  const bounds = cursor.within?.(range)
  if (!bounds) throw new ConnectorError('config', 'The cursor of this stream cannot be limited to a range.')
  return {
    ...cursor,
    range: () => bounds,
    clientSide: true,
    open: { lower: false, upper: true },
    skipsSeen: false,
    skipsMissing: true,
  }
}
