/** Values inside of records and answers by path, with `*` for every item and `**` for any depth where something is removed. */
import type { Json } from '../../json/json.ts'
import { type Dict, isDict } from './component.ts'

export function valueAt(root: Json, path: readonly string[]): Json | undefined {
  let value: Json | undefined = root
  for (const part of path) {
    if (Array.isArray(value)) value = /^-?\d+$/.test(part) ? value.at(Number(part)) : undefined
    else value = isDict(value) && Object.hasOwn(value, part) ? value[part] : undefined
    if (value === undefined) return undefined
  }
  return value
}

export function valuesAt(root: Json, path: readonly string[]): Json[] {
  let found: Json[] = [root]
  for (const part of path) {
    found = found.flatMap((value): Json[] => {
      if (part === '*') return Array.isArray(value) ? value : isDict(value) ? Object.values(value) : []
      const inner = valueAt(value, [part])
      return inner === undefined ? [] : [inner]
    })
  }
  return found
}

/** A list at the end of the path gives its items. */
export function itemsAt(root: Json, path: readonly string[]): Json[] {
  return valuesAt(root, path).flatMap((value) => (Array.isArray(value) ? value : value === null ? [] : [value]))
}

/** Sets a value, making the objects on the way. */
export function setAt(root: Dict, path: readonly string[], value: Json): void {
  let owner: Json = root
  for (const part of path.slice(0, -1)) {
    const next = step(owner, part)
    if (typeof next === 'object' && next !== null) owner = next
    else {
      const made: Dict = {}
      put(owner, part, made)
      owner = made
    }
  }
  put(owner, path.at(-1)!, value)
}

function step(owner: Json, part: string): Json | undefined {
  if (Array.isArray(owner)) return owner[Number(part)]
  return isDict(owner) && Object.hasOwn(owner, part) ? owner[part] : undefined
}

const MOST_LENGTH = 10_000

function put(owner: Json, part: string, value: Json): void {
  if (Array.isArray(owner)) {
    const at = Number(part)
    if (!Number.isInteger(at) || at < 0 || at > MOST_LENGTH) return
    while (owner.length < at) owner.push(null)
    owner[at] = value
  } else if (isDict(owner)) {
    Object.defineProperty(owner, part, { value, enumerable: true, writable: true, configurable: true })
  }
}

const MOST_DEPTH = 100

/** Removes what is at a path; items of a list become null. `when` decides per value. */
export function deleteAt(
  root: Json,
  path: readonly string[],
  when: ((value: Json) => boolean) | null,
  depth = 0,
): void {
  const [part, ...rest] = path
  if (part === undefined || typeof root !== 'object' || root === null || depth > MOST_DEPTH) return
  if (part === '**') {
    if (rest.length > 0) deleteAt(root, rest, when, depth + 1)
    for (const value of Object.values(root)) deleteAt(value, path, when, depth + 1)
    if (rest.length > 0) return
  }
  const keys = part === '*' || part === '**' ? Object.keys(root) : Object.hasOwn(root, part) ? [part] : []
  for (const key of keys) {
    const value = (root as Dict)[key]!
    if (rest.length > 0) deleteAt(value, rest, when, depth + 1)
    else if (when === null || when(value)) remove(root, key)
  }
}

function remove(owner: Json, key: string): void {
  if (Array.isArray(owner)) owner[Number(key)] = null
  else delete (owner as Dict)[key]
}
