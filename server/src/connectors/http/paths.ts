/** Paths in parsed values: keys, digits for places, `*` for all. */
import type { Json } from '../../json/json.ts'
import type { Fields } from './scope.ts'

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value at a path without `*`; undefined if there is none. */
export function lookUp(value: Json | undefined, path: readonly string[]): Json | undefined {
  let found: Json | undefined = value
  for (const step of path) {
    if (Array.isArray(found)) found = isPlace(step) ? found.at(Number(step)) : undefined
    else if (isFields(found)) found = Object.hasOwn(found, step) ? found[step] : undefined
    else return undefined
  }
  return found
}

/** The values at a path that may have `*`. */
export function lookUpAll(value: Json, path: readonly string[]): Json[] {
  const star = path.indexOf('*')
  if (star < 0) {
    const found = lookUp(value, path)
    return found === undefined ? [] : [found]
  }
  const holder = lookUp(value, path.slice(0, star))
  if (typeof holder !== 'object' || holder === null) return []
  const rest = path.slice(star + 1)
  return Object.values(holder).flatMap((item) => lookUpAll(item, rest))
}

/** Sets a value, making the objects on the way; the holders that exist are changed in place. */
export function setAt(holder: Fields, path: readonly string[], value: Json): void {
  let at = holder
  for (const step of path.slice(0, -1)) {
    const next = Object.hasOwn(at, step) ? at[step] : undefined
    if (isFields(next)) at = next
    else {
      const made: Fields = {}
      define(at, step, made)
      at = made
    }
  }
  define(at, path.at(-1)!, value)
}

/** `__proto__` is a field like any other. */
function define(holder: Fields, name: string, value: Json): void {
  Object.defineProperty(holder, name, { value, enumerable: true, configurable: true, writable: true })
}

const isPlace = (step: string): boolean => /^-?\d{1,9}$/.test(step)
