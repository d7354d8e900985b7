/**
 * The streams of a custom source that lists show. A source may have a thousand streams, and an organization a thousand
 * sources. So a list has the first few of each, selected by PostgreSQL, and the total number. A single read has all of
 * them.
 */
import { raw, type Statement, sql } from '../database/database.ts'

export const MAX_SHOWN = 100
export const MAX_SHOWN_BYTES = 4096

export interface ShownStreams {
  streams: string[]
  /** The total number; null if the source has to ask a server for them. */
  stream_count: number | null
}

/** Columns of `v`, the version of a custom source. */
export const shownStreams: Statement = sql`
  (SELECT coalesce(jsonb_agg(shown.name ORDER BY shown.place), '[]')
     FROM (SELECT name, place, sum(octet_length(name::text)) OVER (ORDER BY place) AS bytes
             FROM jsonb_array_elements(v.streams) WITH ORDINALITY AS stream (name, place)
            WHERE place <= ${raw(String(MAX_SHOWN))}) AS shown
    WHERE shown.bytes <= ${raw(String(MAX_SHOWN_BYTES))}) AS streams,
  CASE WHEN v.streams <> '["dynamic"]' THEN jsonb_array_length(v.streams) END AS stream_count`

/** As many items of a list as fit, by their length as JSON. */
export function firstThatFit<T>(items: readonly T[]): T[] {
  let bytes = 0
  const fitting = items.slice(0, MAX_SHOWN).findIndex((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item))
    return bytes > MAX_SHOWN_BYTES
  })
  return items.slice(0, fitting === -1 ? MAX_SHOWN : fitting)
}
