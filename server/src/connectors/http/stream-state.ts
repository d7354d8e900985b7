/**
 * What is kept of a stream between two reads, and within one that is interrupted. As JSON, with everything optional:
 *
 *   cursor      the highest value that was read; with `partitions`, the value for partitions that are not listed there
 *   seen        hashes of the records that have that value
 *   partitions  the same for each partition, by its fields
 *   parents     the states of parent streams that are read incrementally, by name
 *   at          where an unfinished read goes on (position.ts)
 *
 * A person may set `{"cursor": "2024-01-01"}`.
 */
import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import type { Cursor } from './cursor.ts'
import { type HighMark, hashRecord, raise } from './cursor-tracker.ts'
import { isFields } from './paths.ts'
import type { Fields } from './scope.ts'

/** Above this number the partitions with the lowest values are no longer listed. */
const MAX_PARTITIONS = 10_000
/** Kept in chunks that are replaced, never changed: every page's cursor holds the state as it was then. */
const CHUNK = 128
const LONGEST_KEY = 120

export class StreamState {
  readonly cursor: Json
  readonly seen: readonly string[]
  readonly parents: Fields
  #chunks: readonly Fields[]
  readonly #index = new Map<string, number>()
  #floor: Json

  private constructor(cursor: Json, seen: readonly string[], chunks: readonly Fields[], parents: Fields) {
    this.cursor = cursor
    this.seen = seen
    this.parents = parents
    this.#chunks = chunks
    this.#floor = cursor
    for (const [at, chunk] of chunks.entries()) for (const key of Object.keys(chunk)) this.#index.set(key, at)
  }

  /** Throws a ConnectorError if the JSON is not a state. */
  static read(json: Json): StreamState {
    if (json === null) return new StreamState(null, [], [], {})
    if (typeof json === 'string' || typeof json === 'number') return new StreamState(json, [], [], {})
    const { cursor = null, seen = [], partitions = [], parents = {} } = isFields(json) ? json : { seen: null }
    const valid =
      isScalar(cursor) && isTexts(seen) && Array.isArray(partitions) && partitions.every(isFields) && isFields(parents)
    if (valid) return new StreamState(cursor, seen, partitions as Fields[], parents)
    throw new ConnectorError(
      'config',
      'This is not a state of this source; it has the form {"cursor": "2024-01-31"}, with a value of the cursor field.',
    )
  }

  /** What the last read of a partition has left. `key` null: the stream has no partitions, or one value for all. */
  last(key: string | null): HighMark {
    if (key === null) return { highest: this.cursor, tied: this.seen }
    const at = this.#index.get(key)
    const entry = at === undefined ? undefined : this.#chunks[at]![key]
    if (!isFields(entry)) return { highest: this.#floor, tied: [] }
    return { highest: entry.cursor ?? null, tied: isTexts(entry.seen) ? entry.seen : [] }
  }

  /** A partition was read to its end. */
  complete(key: string, mark: HighMark, cursor: Cursor): void {
    const next = raise(cursor, this.last(key), mark)
    if (next.highest === null) return
    const entry: Fields = { cursor: next.highest, ...seenOf(next) }
    let at = this.#index.get(key)
    if (at === undefined) {
      const tail = this.#chunks.at(-1)
      at = tail !== undefined && Object.keys(tail).length < CHUNK ? this.#chunks.length - 1 : this.#chunks.length
      this.#index.set(key, at)
    }
    const chunks = [...this.#chunks]
    chunks[at] = { ...chunks[at], [key]: entry }
    this.#chunks = chunks
    if (this.#index.size > MAX_PARTITIONS) this.#forgetLowest(cursor)
  }

  toJson(extra: Fields = {}): Fields {
    return {
      cursor: this.#chunks.length > 0 ? this.#floor : this.cursor,
      ...(this.seen.length > 0 && this.#chunks.length === 0 ? { seen: [...this.seen] } : {}),
      ...(this.#chunks.length > 0 ? { partitions: this.#chunks as Fields[] } : {}),
      ...(Object.keys(this.parents).length > 0 ? { parents: this.parents } : {}),
      ...extra,
    }
  }

  /** The state after a read without partitions, or with one value for all of them. */
  raised(mark: HighMark, cursor: Cursor): StreamState {
    const next = raise(cursor, { highest: this.cursor, tied: this.seen }, mark)
    return new StreamState(next.highest, next.tied, this.#chunks, this.parents)
  }

  withParents(parents: Fields): StreamState {
    return new StreamState(this.cursor, this.seen, this.#chunks, { ...this.parents, ...parents })
  }

  /**
   * Partitions that are not listed are read from the floor, the highest of the forgotten values. Those are the lowest of all,
   * so records of a forgotten partition that are still to come are later than it.
   */
  #forgetLowest(cursor: Cursor): void {
    const entries = this.#chunks.flatMap((chunk) => Object.entries(chunk) as [string, Fields][])
    entries.sort(([, a], [, b]) => cursor.compare(a.cursor ?? null, b.cursor ?? null))
    const kept = entries.slice(MAX_PARTITIONS / 10)
    const forgotten = entries[MAX_PARTITIONS / 10 - 1]![1].cursor ?? null
    if (this.#floor === null || cursor.compare(forgotten, this.#floor) > 0) this.#floor = forgotten
    this.#index.clear()
    const chunks: Fields[] = []
    for (const [at, [key, entry]] of kept.entries()) {
      const chunk = Math.floor(at / CHUNK)
      chunks[chunk] ??= {}
      chunks[chunk][key] = entry
      this.#index.set(key, chunk)
    }
    this.#chunks = chunks
  }
}

const seenOf = ({ tied }: HighMark): Fields => (tied.length === 0 ? {} : { seen: [...tied] })

/** The same partition has the same key, whatever the order of its fields. */
export function partitionKey(partition: Fields): string {
  const names = Object.keys(partition).sort()
  const text = JSON.stringify(names.map((name) => [name, partition[name]]))
  return text.length <= LONGEST_KEY ? text : hashRecord(text)
}

const isScalar = (value: Json | undefined): value is Json =>
  value === null || ['string', 'number'].includes(typeof value)

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
