/**
 * A bounded queue between the reader and the loader of a run. `push` waits while the total weight is too high
 * (backpressure), so a slow destination slows its source down and memory stays flat.
 */
export interface Channel<T> {
  /** Resolves when more may be pushed; rejects when the other side has failed. */
  push(item: T, weight: number): Promise<void>
  /** No more items will come. */
  close(): void
  /** Fails both sides; queued items are dropped. */
  fail(error: unknown): void
  /** The next item, or null after `close`. */
  next(): Promise<T | null>
}

export function createChannel<T>(maxWeight: number): Channel<T> {
  const items: { item: T; weight: number }[] = []
  let weight = 0
  let closed = false
  // An array, because TypeScript assumes that a variable keeps its value across an await.
  const failures: unknown[] = []
  let wakeReader: (() => void) | null = null
  let wakeWriter: (() => void) | null = null

  const wakeBoth = (): void => {
    wakeReader?.()
    wakeWriter?.()
  }
  return {
    async push(item, itemWeight) {
      if (failures.length > 0) throw failures[0]
      items.push({ item, weight: itemWeight })
      weight += itemWeight
      wakeReader?.()
      while (weight > maxWeight && failures.length === 0) {
        await new Promise<void>((resolve) => {
          wakeWriter = resolve
        })
      }
      if (failures.length > 0) throw failures[0]
    },
    close() {
      closed = true
      wakeBoth()
    },
    fail(error) {
      failures.push(error)
      items.length = 0
      wakeBoth()
    },
    async next() {
      while (true) {
        if (failures.length > 0) throw failures[0]
        const first = items.shift()
        if (first) {
          weight -= first.weight
          if (weight <= maxWeight) wakeWriter?.()
          return first.item
        }
        if (closed) return null
        await new Promise<void>((resolve) => {
          wakeReader = resolve
        })
      }
    },
  }
}
