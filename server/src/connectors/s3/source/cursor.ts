/** The cursor of a read, as it is stored: what was read, and the object that is being read. */
import type { Json } from '../../../json/json.ts'
import type { S3Object } from '../../../s3/listing.ts'
import type { Place } from './read-object.ts'
import { readSeen } from './seen-objects.ts'

export interface Position {
  /** Full refresh: all objects up to this key were read. Keys are kept percent-encoded, for they may hold any character. */
  after: string | null
  /** Incremental: see SeenObjects. */
  seen: { floor: number; seen: string } | null
  /** The object that was being read, its version and the place in it. */
  at: (Place & { key: string; etag: string | null }) | null
}

const nothing: Position = { after: null, seen: null, at: null }

export function writeCursor({ after, seen, at }: Position): Json {
  return {
    ...(after !== null && { after: encodeURIComponent(after) }),
    ...(seen && { ...seen }),
    ...(at && { at: { ...at, key: encodeURIComponent(at.key) } }),
  }
}

export function readCursor(value: Json): Position {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return nothing
  const { after, at } = value
  return {
    after: typeof after === 'string' ? decodeURIComponent(after) : null,
    seen: readSeen(value),
    at: readPlace(at),
  }
}

function readPlace(at: Json | undefined): Position['at'] {
  if (typeof at !== 'object' || at === null || Array.isArray(at)) return null
  const { key, etag, records, bytes } = at
  if (typeof key !== 'string' || typeof records !== 'number') return null
  return {
    key: decodeURIComponent(key),
    etag: typeof etag === 'string' ? etag : null,
    records,
    ...(typeof bytes === 'number' && { bytes }),
  }
}

/** Whether the object is still the one that was being read. Without an ETag nothing tells. */
export const isSame = (at: Position['at'], object: S3Object): boolean =>
  at !== null && at.key === object.key && at.etag !== null && at.etag === object.etag
