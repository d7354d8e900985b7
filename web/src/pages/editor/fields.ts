/** Reading and changing nested JSON by path, without touching what a form does not know. */
export type Fields = Record<string, unknown>
export type Path = readonly (string | number)[]

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function getIn(value: unknown, path: Path): unknown {
  let found = value
  for (const step of path)
    found =
      (isObject(found) || Array.isArray(found)) && Object.hasOwn(found, step) ? (found as Fields)[step] : undefined
  return found
}

/**
 * A copy with another value at the path. Undefined removes the field, and with it the objects that it leaves empty, so
 * that a setting which was given and taken back leaves no trace.
 */
export function setIn(fields: Fields, [first, ...rest]: readonly string[], value: unknown): Fields {
  const inner = isObject(fields[first!]) ? (fields[first!] as Fields) : {}
  const changed = rest.length === 0 ? value : setIn(inner, rest, value)
  const emptied = rest.length > 0 && value === undefined && isObject(changed) && Object.keys(changed).length === 0
  if (changed !== undefined && !emptied) return { ...fields, [first!]: changed }
  const { [first!]: _, ...others } = fields
  return others
}

export function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, index) => isSame(item, other[index]))
  if (!isObject(one) || !isObject(other)) return false
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]))
  )
}

/** `source.config.queries[0].sql` as steps, as the server writes paths. */
export function parsePath(text: string): (string | number)[] {
  return [...text.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map(([, index, name]) =>
    index === undefined ? name! : Number(index),
  )
}
