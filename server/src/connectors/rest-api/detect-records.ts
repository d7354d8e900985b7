/** Where the records are, if the settings do not say: dlt's rules. Found in the first answer, and kept. */
import type { Json } from '../../json/json.ts'
import { isFields } from '../http/paths.ts'
import type { Value } from '../http/scope.ts'

const RECORD_KEYS = new Set([
  'data',
  'items',
  'results',
  'entries',
  'records',
  'rows',
  'entities',
  'payload',
  'content',
  'objects',
  'values',
])
const DEEPEST = 3

export function detectRecords(): Value<readonly string[]> {
  let found: readonly string[] | null = null
  return ({ answer }) => {
    if (found !== null) return found
    const { body } = answer!
    const lists = listPaths(body, [])
    const path = lists.find((each) => RECORD_KEYS.has(each.at(-1)!)) ?? lists[0] ?? []
    // An answer without a list says nothing about the next one.
    if (lists.length > 0 || Array.isArray(body)) found = path
    return path
  }
}

function listPaths(value: Json, path: readonly string[]): string[][] {
  if (!isFields(value) || path.length >= DEEPEST) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    Array.isArray(inner) ? [[...path, key]] : listPaths(inner, [...path, key]),
  )
}
