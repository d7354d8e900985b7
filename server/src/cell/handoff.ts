/**
 * A bounded queue between a producer and a consumer. `put` resolves at once while there is room, otherwise when an item
 * is taken (backpressure).
 */
export interface Handoff<T> {
  put(item: T): Promise<void> | undefined
  /** Null at the end; items that were put before a failure are returned before it throws. */
  take(): Promise<T | null>
  end(): void
  fail(error: unknown): void
}

export function createHandoff<T>(ahead: number): Handoff<T> {
  const items: T[] = []
  let taker: PromiseWithResolvers<T | null> | null = null
  let giver: (() => void) | null = null
  let finished: { error?: unknown } | null = null

  const finish = (outcome: { error?: unknown }): void => {
    finished ??= outcome
    if (taker === null) return
    if ('error' in finished) taker.reject(finished.error)
    else taker.resolve(null)
    taker = null
  }

  return {
    put(item) {
      if (taker) {
        taker.resolve(item)
        taker = null
        return undefined
      }
      items.push(item)
      if (items.length < ahead) return undefined
      return new Promise((resolve) => {
        giver = resolve
      })
    },
    async take() {
      if (items.length > 0) {
        giver?.()
        giver = null
        return items.shift()!
      }
      if (finished) {
        if ('error' in finished) throw finished.error
        return null
      }
      taker = Promise.withResolvers<T | null>()
      return taker.promise
    },
    end: () => finish({}),
    fail: (error) => finish({ error }),
  }
}
