/**
 * Generated records, each derived only from the seed and its position. They are written byte by byte into the page: a
 * run of ten million records spends most of its time here, and strings would double that time and overload the garbage
 * collector.
 */
import type { Column } from '../contract.ts'
import type { ColumnType } from '../types/column-types.ts'

export const streams = ['creatures', 'plants'] as const
export type Stream = (typeof streams)[number]

/** No record is longer than this. */
export const LONGEST_RECORD = 512

const CREATURES = words('otter heron newt badger swift carp hare adder moth lynx shrew crane')
const PLANTS = words('reed alder sedge willow fern iris poplar moss sundew birch clover yew')
const MOODS = words('amber quiet brisk mossy pale stout wary bright')
const REGIONS = words('north east south west')
const TAGS = ['["river"]', '["river","shy"]', '[]', '["marsh","old"]', '["weir"]', '["bank","young","ringed"]'].map(
  bytesOf,
)
const NOTES = [null, 'seen at dawn', 'said "hello"', '', 'two\nlines', null, 'café by the lock 🦦'].map((note) =>
  bytesOf(JSON.stringify(note)),
)
const BOOLEANS = [bytesOf('false'), bytesOf('true')]
const FIRST_DAY = Date.UTC(2020, 0, 1) / 86_400_000

const SHAPES = {
  creatures: {
    kinds: CREATURES,
    id: bytesOf('{"_record_id":"creatures-'),
    whole: bytesOf('","legs":'),
    size: bytesOf(',"weight_kg":'),
  },
  plants: {
    kinds: PLANTS,
    id: bytesOf('{"_record_id":"plants-'),
    whole: bytesOf('","leaves":'),
    size: bytesOf(',"height_m":'),
  },
}
const AFTER_RECORD_ID = bytesOf('","id":')
const BEFORE_NAME = bytesOf(',"name":"')
const BEFORE_KIND = bytesOf('","kind":"')
const BEFORE_PROTECTED = bytesOf(',"protected":')
const BEFORE_TAGS = bytesOf(',"tags":')
const BEFORE_REGION = bytesOf(',"home":{"region":"')
const BEFORE_DEPTH = bytesOf('","depth_m":')
const BEFORE_NOTE = bytesOf('},"note":')
const BEFORE_TIME = bytesOf(',"updated_at":"')
const AFTER_TIME = bytesOf('Z"}\n')

/** The fields of a record, in their order. */
export function columnsOf(stream: Stream): Column[] {
  const [whole, size] = stream === 'creatures' ? ['legs', 'weight_kg'] : ['leaves', 'height_m']
  const types: Record<string, ColumnType> = {
    _record_id: 'text',
    id: 'int64',
    name: 'text',
    kind: 'text',
    [whole]: 'int64',
    [size]: 'decimal',
    protected: 'boolean',
    tags: 'json',
    home: 'json',
    note: 'text',
    updated_at: 'timestamptz',
  }
  return Object.entries(types).map(([name, type]) => ({ name, type, nullable: name === 'note' }))
}

/** What all records of a reading have in common. */
interface Recipe {
  stream: Stream
  seed: number
  /** 0: never. */
  repeatIds: number
}

/** Writes one record at `start` and returns where it ends. */
export function writeRecord(page: Uint8Array, start: number, recipe: Recipe, position: number): number {
  const { stream, seed, repeatIds } = recipe
  const shape = SHAPES[stream]
  const id = (repeatIds > 0 ? position % repeatIds : position) + 1
  const a = mix(seed, position)
  const b = mix(a, position)
  const kind = shape.kinds[a % shape.kinds.length]!
  let at = put(page, start, shape.id)
  at = putNumber(page, at, id)
  at = put(page, at, AFTER_RECORD_ID)
  at = putNumber(page, at, id)
  at = put(page, at, BEFORE_NAME)
  at = put(page, at, MOODS[(a >>> 8) % MOODS.length]!)
  page[at++] = 32
  at = put(page, at, kind)
  page[at++] = 32
  at = putNumber(page, at, id)
  at = put(page, at, BEFORE_KIND)
  at = put(page, at, kind)
  at = put(page, at, shape.whole)
  at = putNumber(page, at, stream === 'creatures' ? (b & 3) * 2 : b & 4095)
  at = put(page, at, shape.size)
  at = putNumber(page, at, (b >>> 12) % 900)
  page[at++] = 46
  at = putNumber(page, at, ((a >>> 16) % 90) + 10)
  at = put(page, at, BEFORE_PROTECTED)
  at = put(page, at, BOOLEANS[(a >>> 4) & 1]!)
  at = put(page, at, BEFORE_TAGS)
  at = put(page, at, TAGS[(b >>> 4) % TAGS.length]!)
  at = put(page, at, BEFORE_REGION)
  at = put(page, at, REGIONS[(a >>> 5) & 3]!)
  at = put(page, at, BEFORE_DEPTH)
  at = putNumber(page, at, ((b >>> 20) % 400) - 200)
  at = put(page, at, BEFORE_NOTE)
  at = put(page, at, NOTES[(a >>> 11) % NOTES.length]!)
  at = put(page, at, BEFORE_TIME)
  at = putTime(page, at, position)
  return put(page, at, AFTER_TIME)
}

function words(text: string): Uint8Array[] {
  return text.split(' ').map(bytesOf)
}

function bytesOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text))
}

/** A 32-bit hash of two numbers, evenly distributed (the finalizer of MurmurHash3). */
function mix(seed: number, position: number): number {
  let hash = seed ^ Math.imul(position + 1, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

function put(page: Uint8Array, start: number, bytes: Uint8Array): number {
  for (let index = 0; index < bytes.length; index++) page[start + index] = bytes[index]!
  return start + bytes.length
}

function putNumber(page: Uint8Array, start: number, value: number): number {
  let at = start
  let rest = value
  if (rest < 0) {
    page[at++] = 45
    rest = -rest
  }
  let length = 1
  for (let limit = 10; rest >= limit; limit *= 10) length++
  for (let index = at + length - 1; index >= at; index--) {
    const tenth = Math.floor(rest / 10)
    page[index] = 48 + rest - tenth * 10
    rest = tenth
  }
  return at + length
}

let day = -1
let dayBytes: Uint8Array = new Uint8Array(0)

/** Each record is one second later than the one before. The date part changes every 86,400 records and is cached. */
function putTime(page: Uint8Array, start: number, position: number): number {
  const days = Math.floor(position / 86400)
  if (days !== day) {
    day = days
    dayBytes = bytesOf(new Date((FIRST_DAY + days) * 86_400_000).toISOString().slice(0, 11))
  }
  const second = position - days * 86400
  let at = put(page, start, dayBytes)
  at = putTwo(page, at, (second / 3600) | 0)
  page[at++] = 58
  at = putTwo(page, at, ((second / 60) | 0) % 60)
  page[at++] = 58
  return putTwo(page, at, second % 60)
}

function putTwo(page: Uint8Array, start: number, value: number): number {
  page[start] = 48 + ((value / 10) | 0)
  page[start + 1] = 48 + (value % 10)
  return start + 2
}
