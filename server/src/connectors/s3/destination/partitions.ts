/**
 * Which folder a record belongs to: `country=DE/created_at_day=2026-11-16/`, the convention of Hive that Spark, DuckDB, Athena
 * and others read. A date cut to a unit is named after field and unit, so that no reader takes it for the field itself.
 */
import { createKeyRing, decodeString, visitFields, visitLines } from '../../../json/fields.ts'
import { ConnectorError } from '../../contract.ts'
import type { DestinationSettings } from './settings.ts'

type Partition = DestinationSettings['partition_by'][number]

/** The name that readers know for a missing value. */
const MISSING = '__HIVE_DEFAULT_PARTITION__'
const LONGEST_VALUE = 200
/** Per checkpoint: each is an object of its own, and thousands of tiny objects serve nobody. */
const MOST_FOLDERS = 500
/** Records with ever-changing keys must not fill memory. */
const MAX_KEYS = 10_000

/** Divides lines by folder, in the order of the folders' first appearance. */
export type Partitioner = (lines: Buffer) => Map<string, Buffer[]>

export function createPartitioner(partitions: readonly Partition[]): Partitioner {
  let ring = createKeyRing()
  let places: number[] = []
  const names = partitions.map(({ field, unit }) => encodeName(unit === undefined ? field : `${field}_${unit}`))
  const values: string[] = []
  return (lines) => {
    if (ring.raw.length > MAX_KEYS) {
      ring = createKeyRing()
      places = []
    }
    const found = new Map<string, Buffer[]>()
    const text = lines.toString('latin1')
    visitLines(text, (start, end) => {
      values.length = 0
      visitFields(text, start, end, ring, (key, valueStart, valueEnd) => {
        if (places[key] === undefined) {
          const name = decodeString(ring.raw[key]!)
          places[key] = partitions.findIndex(({ field }) => field === name)
        }
        const place = places[key]!
        if (place >= 0) values[place] = text.slice(valueStart, valueEnd)
      })
      let folder = ''
      for (const [at, partition] of partitions.entries()) folder += `${names[at]}=${folderOf(partition, values[at])}/`
      const line = lines.subarray(start, end + 1)
      const same = found.get(folder)
      if (same) same.push(line)
      else found.set(folder, [line])
    })
    return found
  }
}

const UNIT_LENGTH = { year: 4, month: 7, day: 10, hour: 13 }
const TIME = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d|$)/

function folderOf({ field, unit }: Partition, raw: string | undefined): string {
  if (raw === undefined || raw === 'null') return MISSING
  if (raw[0] === '{' || raw[0] === '[')
    throw new ConnectorError('config', `partition_by: the field '${field}' holds nested values; choose another.`)
  const value = raw[0] === '"' ? decodeString(raw) : raw
  if (unit === undefined) return value === '' ? MISSING : encodeName(value)
  if (!TIME.test(value) || (unit === 'hour' && value.length < 13))
    throw new ConnectorError(
      'config',
      `partition_by: the field '${field}' holds '${value.slice(0, 40)}', which has no ${unit}; it must be a date or time in ISO 8601.`,
    )
  return value.slice(0, UNIT_LENGTH[unit]).replace(' ', 'T')
}

/** Percent-encodes what has a meaning in paths, as Hive does. */
function encodeName(value: string): string {
  const name = encodeURIComponent(value).replace(/[!'()*]|^\.+$/g, (signs) =>
    [...signs].map((sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`).join(''),
  )
  if (name.length <= LONGEST_VALUE) return name
  throw new ConnectorError(
    'config',
    `partition_by: a value has more than ${LONGEST_VALUE} characters as the name of a folder; choose another field.`,
  )
}

export function refuseManyFolders(folders: number): void {
  if (folders > MOST_FOLDERS)
    throw new ConnectorError(
      'config',
      `partition_by makes more than ${MOST_FOLDERS} folders within one checkpoint; choose a field with fewer values, or a larger unit.`,
    )
}
