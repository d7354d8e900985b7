/** Hands items from one side to the other. `put` resolves when the item was taken, so the giver never runs ahead. */
export interface Handoff<T> {
  put(item: T): Promise<void>
  /** Null at the end. */
  take(): Promise<T | null>
  end(): void
  fail(error: unknown): void
}

export function createHandoff<T>(): Handoff<T> {
  let held: { item: T; taken: () => void } | null = null
  let waiting: PromiseWithResolvers<T | null> | null = null
  let finished: { error?: unknown } | null = null

  const finish = (outcome: { error?: unknown }): void => {
    finished ??= outcome
    if (waiting) {
      if ('error' in finished) waiting.reject(finished.error)
      else waiting.resolve(null)
      waiting = null
    }
  }

  return {
    put(item) {
      if (waiting) {
        waiting.resolve(item)
        waiting = null
        return Promise.resolve()
      }
      return new Promise((taken) => {
        held = { item, taken }
      })
    },
    async take() {
      if (held) {
        const { item, taken } = held
        held = null
        taken()
        return item
      }
      if (finished) {
        if ('error' in finished) throw finished.error
        return null
      }
      waiting = Promise.withResolvers<T | null>()
      return waiting.promise
    },
    end: () => finish({}),
    fail: (error) => finish({ error }),
  }
}
