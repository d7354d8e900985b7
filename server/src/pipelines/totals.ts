/**
 * Caches for a moment how long the lists of an organization's pipelines are: counting thousands costs more than reading the
 * page. A change by this process clears the cache at once; a change by another process is visible within a second.
 * Short lists are always counted.
 */
const REMEMBERED_MS = 1000
export const WORTH_REMEMBERING = 500
/** Of one organization: a search that is typed makes a list for each letter. */
const LISTS = 50

interface Memory {
  total: number
  until: number
}

const totals = new Map<string, Map<string, Memory>>()
let changes = 0

/** After a commit that added, changed or removed pipelines. */
export function forgetTotals(organizationId: string): void {
  changes++
  totals.delete(organizationId)
}

export function cachedTotal(organizationId: string, list: string): number | null {
  const memory = totals.get(organizationId)?.get(list)
  if (memory === undefined) return null
  if (performance.now() < memory.until) return memory.total
  totals.delete(organizationId)
  return null
}

/** Call before counting; the returned function stores the count, unless something changed meanwhile. */
export function rememberTotal(organizationId: string, list: string): (total: number) => void {
  const before = changes
  return (total) => {
    if (total < WORTH_REMEMBERING || changes !== before) return
    const known = totals.get(organizationId)
    const lists = known !== undefined && known.size < LISTS ? known : new Map<string, Memory>()
    totals.set(organizationId, lists.set(list, { total, until: performance.now() + REMEMBERED_MS }))
  }
}
