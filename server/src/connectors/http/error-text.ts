/** The sentence in which an API says what was wrong, from the places where APIs usually put it. */
import type { Json } from '../../json/json.ts'
import { isFields } from './paths.ts'
import type { Answer } from './scope.ts'

const NAMES = [
  'message',
  'error_description',
  'detail',
  'error_message',
  'errorMessage',
  'error',
  'errors',
  'title',
  'reason',
]
const LONGEST = 300
const DEEPEST = 4

/** Null if the body holds none. Pages of HTML say nothing that helps. */
export function findMessage(answer: Answer): string | null {
  const found = search(answer.body, DEEPEST)
  const text = found ?? (answer.text.length <= LONGEST && !answer.text.includes('<') ? answer.text : '')
  const plain = text
    .replace(/\s+/g, ' ')
    .replace(/[^\x20-\x7e\u00a0-\ud7ff]/g, '')
    .trim()
  if (plain === '') return null
  return plain.length > LONGEST ? `${plain.slice(0, LONGEST)}…` : plain
}

function search(value: Json, depth: number): string | null {
  if (typeof value === 'string') return value
  if (depth === 0) return null
  if (Array.isArray(value)) return value.length === 0 ? null : search(value[0]!, depth - 1)
  if (!isFields(value)) return null
  for (const name of NAMES) {
    const found = Object.hasOwn(value, name) ? search(value[name]!, depth - 1) : null
    if (found !== null && found !== '') return found
  }
  return null
}
