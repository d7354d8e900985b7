/**
 * Caches an organization's number of pipelines for a moment: counting thousands costs more than reading the page. A
 * change by this process clears the cache at once; a change by another process is visible within a second. Short lists
 * are always counted, and so is every list with a filter.
 */
const REMEMBERED_MS = 1000
const WORTH_IT = 1000

interface Memory {
  total: number
  until: number
}

const totals = new Map<string, Memory>()
let changes = 0

/** After a commit that added or removed pipelines. */
export function forgetTotal(organizationId: string): void {
  changes++
  totals.delete(organizationId)
}

export function cachedTotal(organizationId: string): number | null {
  const memory = totals.get(organizationId)
  if (memory === undefined) return null
  if (performance.now() < memory.until) return memory.total
  totals.delete(organizationId)
  return null
}

/** Call before counting; the returned function stores the count, unless something changed meanwhile. */
export function rememberTotal(organizationId: string): (total: number) => void {
  const before = changes
  return (total) => {
    if (total >= WORTH_IT && changes === before)
      totals.set(organizationId, { total, until: performance.now() + REMEMBERED_MS })
  }
}
