/**
 * Invented records, each made from the seed and its position alone. Written as text, not by JSON.stringify: a run of ten
 * million spends most of its time here, and every value is plain ASCII that needs no escaping.
 */
export const streams = ['creatures', 'plants'] as const
export type Stream = (typeof streams)[number]

const CREATURES = [
  'otter',
  'heron',
  'newt',
  'badger',
  'swift',
  'carp',
  'hare',
  'adder',
  'moth',
  'lynx',
  'shrew',
  'crane',
]
const PLANTS = [
  'reed',
  'alder',
  'sedge',
  'willow',
  'fern',
  'iris',
  'poplar',
  'moss',
  'sundew',
  'birch',
  'clover',
  'yew',
]
const MOODS = ['amber', 'quiet', 'brisk', 'mossy', 'pale', 'stout', 'wary', 'bright']
const REGIONS = ['north', 'east', 'south', 'west']
const TAGS = ['["river"]', '["river","shy"]', '[]', '["marsh","old"]', '["weir"]', '["bank","young","ringed"]']
const NOTES = [
  'null',
  '"seen at dawn"',
  '"said \\"hello\\""',
  '""',
  '"two\\nlines"',
  'null',
  '"caf\\u00e9 by the lock"',
]
const FIRST_SECOND = Date.UTC(2020, 0, 1) / 1000

export function makeRecord(stream: Stream, seed: number, position: number, repeatIds: number): string {
  const id = (repeatIds > 0 ? position % repeatIds : position) + 1
  const a = mix(seed, position)
  const b = mix(a, position)
  const kinds = stream === 'creatures' ? CREATURES : PLANTS
  const kind = kinds[a % kinds.length]!
  const mood = MOODS[(a >>> 8) % MOODS.length]!
  const size = stream === 'creatures' ? `,"legs":${(b & 3) * 2},"weight_kg":` : `,"leaves":${b & 4095},"height_m":`
  return (
    `{"_record_id":"${stream}-${id}","id":${id},"name":"${mood} ${kind} ${id}","kind":"${kind}"` +
    `${size}${(b >>> 12) % 900}.${((a >>> 16) % 90) + 10},"protected":${(a & 16) === 0 ? 'false' : 'true'}` +
    `,"tags":${TAGS[(b >>> 4) % TAGS.length]},"home":{"region":"${REGIONS[(a >>> 5) & 3]}","depth_m":${((b >>> 20) % 400) - 200}}` +
    `,"note":${NOTES[(a >>> 11) % NOTES.length]},"updated_at":"${formatTime(FIRST_SECOND + position)}"}\n`
  )
}

/** A 32-bit hash of two numbers, evenly spread (the finisher of murmur3). */
function mix(seed: number, position: number): number {
  let hash = seed ^ Math.imul(position + 1, 0x9e3779b1) ^ Math.floor(position / 4294967296)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

let day = -1
let dayText = ''

/** ISO 8601 in UTC. Records come in order, so the date is the same for 86,400 of them and is made once. */
function formatTime(seconds: number): string {
  const today = Math.floor(seconds / 86400)
  if (today !== day) {
    day = today
    dayText = new Date(today * 86_400_000).toISOString().slice(0, 11)
  }
  const rest = seconds - today * 86400
  return `${dayText}${two((rest / 3600) | 0)}:${two(((rest / 60) | 0) % 60)}:${two(rest % 60)}Z`
}

function two(value: number): string {
  return value < 10 ? `0${value}` : `${value}`
}
