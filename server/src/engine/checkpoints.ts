/**
 * Decides when a checkpoint is due. Small ones lose little work when a worker dies, but each is a part in a list that
 * is saved whole every time. So both limits grow slowly with the run, and the list stays at a few hundred parts.
 */
export const usualSizes = { bytes: 8 * 1024 * 1024, records: 100_000, ms: 5000 }
const LARGEST_BYTES = 64 * 1024 * 1024
const LARGEST_MS = 30_000
const GROWTH = 16

export interface CheckpointRule {
  add(bytes: number, records: number): void
  due(): boolean
  /** Whether anything came since the last checkpoint. */
  pending(): boolean
  begin(): void
}

export function createCheckpointRule(first = usualSizes, now = () => performance.now()): CheckpointRule {
  const started = now()
  let last = started
  let totalBytes = 0
  let totalRecords = 0
  let bytes = 0
  let records = 0
  let pages = 0
  return {
    add(pageBytes, pageRecords) {
      bytes += pageBytes
      records += pageRecords
      totalBytes += pageBytes
      totalRecords += pageRecords
      pages++
    },
    due() {
      if (pages === 0) return false
      if (bytes >= clamp(totalBytes / GROWTH, first.bytes, LARGEST_BYTES)) return true
      if (records >= Math.max(first.records, totalRecords / GROWTH)) return true
      const time = now()
      return time - last >= clamp((time - started) / GROWTH, first.ms, LARGEST_MS)
    },
    pending: () => pages > 0,
    begin() {
      last = now()
      bytes = 0
      records = 0
      pages = 0
    },
  }
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high)
}
