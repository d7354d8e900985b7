/** How long a server that owes an answer may stay silent. */
export class Silence {
  readonly #overdue: (seconds: number) => void
  #timer: NodeJS.Timeout | null = null
  #heard = 0
  #paused = false

  constructor(overdue: (seconds: number) => void) {
    this.#overdue = overdue
  }

  /** Begins to wait. Null: without a limit. */
  watch(limitMs: number | null): void {
    this.stop()
    if (limitMs === null) return
    this.#heard = performance.now()
    // One timer that looks at the clock: resetting it for every chunk would cost more.
    const look = (): void => {
      const waited = this.#paused ? 0 : performance.now() - this.#heard
      if (waited >= limitMs) this.#overdue(Math.round(limitMs / 1000))
      else this.#set(look, limitMs - waited + 1)
    }
    this.#set(look, limitMs)
  }

  #set(look: () => void, ms: number): void {
    // Node fires longer timeouts at once.
    this.#timer = setTimeout(look, Math.min(ms, 0x7fffffff))
    this.#timer.unref()
  }

  heard(): void {
    this.#heard = performance.now()
  }

  /** While we are not reading, the server cannot be late. */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.heard()
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }
}
