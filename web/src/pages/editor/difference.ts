/** What a change of a pipeline is, field by field. */
import { type Fields, isObject, isSame } from './fields.ts'

export interface Difference {
  /** As the API writes it: `config.sync.mode`. */
  path: string
  /** Undefined: was not there, or is no longer there. */
  before: unknown
  after: unknown
}

/** Objects are compared field by field, lists and everything else as a whole. */
export function findDifferences(before: unknown, after: unknown, path = ''): Difference[] {
  if (isSame(before, after)) return []
  if (!isObject(before) && !isObject(after)) return [{ path, before, after }]
  if (!isMissingOrObject(before) || !isMissingOrObject(after)) return [{ path, before, after }]
  const one: Fields = before ?? {}
  const other: Fields = after ?? {}
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])]
  if (names.length === 0) return [{ path, before, after }]
  return names.flatMap((name) =>
    findDifferences(
      Object.hasOwn(one, name) ? one[name] : undefined,
      Object.hasOwn(other, name) ? other[name] : undefined,
      path === '' ? name : `${path}.${name}`,
    ),
  )
}

const isMissingOrObject = (value: unknown): value is Fields | undefined => value === undefined || isObject(value)
