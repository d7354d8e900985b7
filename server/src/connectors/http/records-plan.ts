/** How records are found in a body and what happens to them. */
import type { Json } from '../../json/json.ts'
import type { Fields, Scope, Value } from './scope.ts'

export interface RecordsPlan {
  decoder: DecoderPlan
  /** Where the records are. */
  extract: ExtractPlan
  /** Transformed before `filter` instead of after it. */
  transformFirst?: boolean
  filter: Value<boolean> | null
  /** In order; each changes the record in place, or returns one or several in its stead. */
  transforms: readonly Transform[]
  /** Fields that depend on the partition, the interval and the answer but not on the record: added without parsing it. */
  add: Value<Fields> | null
}

/** `scope.record` is the record as well. */
export type Transform = (record: Fields, scope: Scope) => Fields | readonly Fields[] | undefined

/**
 * `path`: keys, array indexes as digits, and `*` for every item or value. An array at the end gives one record per item, an
 * object is one record, nothing is none. `wrap`: items that are not objects become `{ [wrap]: item }`; without it they are
 * an error. `compute` reads the records from the whole body.
 */
export type ExtractPlan =
  | { path: readonly string[] | Value<readonly string[]>; expand?: ExpandPlan; wrap?: string }
  | { compute: Value<Json[]> }

/** The items of a list inside each extracted record become the records. */
export interface ExpandPlan {
  path: readonly string[]
  keepOriginal: boolean
  /** A record without such a list: left out, or returned as it is. */
  onNone: 'skip' | 'keep'
}

export type DecoderPlan =
  | { kind: 'json' }
  /** One JSON value per line. */
  | { kind: 'jsonl' }
  /** The items at a path of one large document. */
  | { kind: 'json_items'; path: readonly string[] }
  | { kind: 'csv'; delimiter: string; encoding: string; nullValues: readonly string[] }
  | { kind: 'xml' }
  /** Each line is a record `{ "record": "…" }`. */
  | { kind: 'lines' }
  | { kind: 'gzip'; of: DecoderPlan }
  /** The first file of the archive. */
  | { kind: 'zip'; of: DecoderPlan }
