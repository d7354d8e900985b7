/** Limits for a source's state, so that our database and the destination's mark can store it. */
import type { Json } from '../json/json.ts'

const MAX_BYTES = 8 * 1024 * 1024

/** U+0000 and lone surrogates, which jsonb rejects, as JSON.stringify writes them. */
export const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/

/** Why the state cannot be stored, or null. */
export function findStateFault(state: Json): string | null {
  const text = JSON.stringify(state) ?? 'null'
  if (Buffer.byteLength(text) > MAX_BYTES) return `a state larger than ${MAX_BYTES / 1024 / 1024} MB`
  return UNSTORABLE.test(text) ? 'a state that contains U+0000 or a lone surrogate' : null
}
