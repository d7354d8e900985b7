/** What of a source's state can be kept, with us and in the mark of a destination. */
import type { Json } from '../json/json.ts'

const MOST_BYTES = 8 * 1024 * 1024

/** U+0000 and halves of surrogate pairs, which jsonb does not take, as JSON.stringify writes them. */
export const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/

/** Why it cannot be kept, or null. */
export function findStateFault(state: Json): string | null {
  const text = JSON.stringify(state) ?? 'null'
  if (Buffer.byteLength(text) > MOST_BYTES) return `a state larger than ${MOST_BYTES / 1024 / 1024} MB`
  return UNSTORABLE.test(text) ? 'a state with a U+0000 or half of a surrogate pair in it' : null
}
