/**
 * What an incremental read remembers between runs. Objects are read in the order of their times, and every object whose time is
 * not before the **floor** is remembered, by a hash of its key, version and time. One that is not remembered is new: also if
 * it appeared late, with a time before that of others that were read (the time of a large upload is that of its beginning).
 *
 * The floor follows the newest object at a distance of `late_hours`. If more objects are remembered than fit into a state, it
 * rises to the oldest of the newest MOST. It never rises above an object that is still to be read, so a state can be
 * saved after each of them.
 */
import { createHash } from 'node:crypto'
import type { Json } from '../../../json/json.ts'
import type { S3Object } from '../../../s3/listing.ts'

/** 20 bytes each, in a state of at most 8 MB that is kept twice. */
const MOST = 50_000
const HASH_LENGTH = 14

export class SeenObjects {
  /** Times in milliseconds, by hash. */
  readonly #times = new Map<string, number>()
  readonly #lateMs: number
  #floor = 0
  #newest = 0
  /** All entries as they are stored. Appending to a text is cheap, and a state is made after every page. */
  #text = ''

  constructor(state: { floor: number; seen: string } | null, lateHours: number) {
    this.#lateMs = lateHours * 3_600_000
    if (state === null) return
    this.#floor = state.floor
    this.#text = state.seen
    for (const entry of state.seen.split(' ')) {
      const time = Number.parseInt(entry.slice(HASH_LENGTH), 36)
      if (Number.isNaN(time)) continue
      this.#times.set(entry.slice(0, HASH_LENGTH), time)
      this.#newest = Math.max(this.#newest, time)
    }
  }

  isNew(object: S3Object): boolean {
    return object.modified.getTime() >= this.#floor && !this.#times.has(hashOf(object))
  }

  /** Objects that are still to be read are not older than this one. */
  add(object: S3Object, now = Date.now()): void {
    const time = object.modified.getTime()
    const hash = hashOf(object)
    this.#times.set(hash, time)
    this.#text += `${this.#text === '' ? '' : ' '}${hash}${time.toString(36)}`
    // A clock that is ahead must not make every other object look late.
    this.#newest = Math.max(this.#newest, Math.min(time, now))
    if (this.#times.size > MOST * 1.2) this.#forget(Math.min(this.#limit(), time))
  }

  /** At the start of a run. */
  prune(): void {
    this.#forget(this.#limit())
  }

  /** True if less is remembered than `late_hours` asks for. */
  get isCrowded(): boolean {
    return this.#floor > Math.max(0, this.#newest - this.#lateMs)
  }

  get state(): { floor: number; seen: string } {
    return { floor: this.#floor, seen: this.#text }
  }

  #limit(): number {
    const byAge = this.#newest - this.#lateMs
    if (this.#times.size <= MOST) return byAge
    const times = [...this.#times.values()].sort((one, other) => other - one)
    // The tie at the limit is forgotten as a whole: objects before the floor count as read.
    return Math.max(byAge, times[MOST - 1]! + 1)
  }

  #forget(floor: number): void {
    if (floor <= this.#floor) return
    this.#floor = floor
    for (const [hash, time] of this.#times) if (time < floor) this.#times.delete(hash)
    this.#text = [...this.#times].map(([hash, time]) => `${hash}${time.toString(36)}`).join(' ')
  }
}

function hashOf({ key, etag, modified, size }: S3Object): string {
  return createHash('sha256')
    .update(JSON.stringify([key, etag, modified.getTime(), size]))
    .digest('base64url')
    .slice(0, HASH_LENGTH)
}

export function readSeen(value: Json | undefined): { floor: number; seen: string } | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
  const { floor, seen } = value
  return typeof floor === 'number' && typeof seen === 'string' ? { floor, seen } : null
}
