/** Looks at what is inside a value, without recursion: it is a tenant's, and may be large and deep. */

/** `name` is null for the items of a list. `at` is the path of what holds the value. */
type Visit = (value: unknown, name: string | null, at: string) => void

export function walk(root: unknown, at: string, visit: Visit): void {
  const holders: [holder: object, at: string][] = []
  const enter = (value: unknown, name: string | null, place: string): void => {
    visit(value, name, place)
    if (typeof value === 'object' && value !== null)
      holders.push([value, name === null ? place : place === '' ? name : `${place}.${name}`])
  }
  enter(root, null, at)
  // The list grows while it is read.
  for (const [holder, place] of holders)
    if (Array.isArray(holder)) for (const item of holder) enter(item, null, place)
    else for (const name of Object.keys(holder)) enter((holder as Record<string, unknown>)[name], name, place)
}

/** About as many bytes as the value has as JSON, and never less than one for each value in it. */
export function weigh(root: unknown): number {
  let bytes = 0
  walk(root, '', (value, name) => {
    bytes += 2 + (name === null ? 0 : name.length + 3) + (typeof value === 'string' ? value.length : 0)
  })
  return bytes
}
