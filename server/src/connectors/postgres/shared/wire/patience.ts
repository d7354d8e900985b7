/**
 * How long a server that owes an answer may stay silent. Honest servers have statement timeouts, which end every
 * statement with a message; one that withholds its last message would hold a run, and its slot, until the run times
 * out.
 */

/** ReadyForQuery follows the end of a statement at once; rolling back takes no time in PostgreSQL. */
export const SETTLE_MS = 60_000

export class Patience {
  readonly #overdue: (waitedMs: number) => void
  #limitMs: number | null = null
  #since = 0
  #paused = false
  #timer: NodeJS.Timeout | null = null
  #firesAt = 0

  constructor(overdue: (waitedMs: number) => void) {
    this.#overdue = overdue
  }

  /** Restarts the wait. Null: no limit. */
  wait(limitMs: number | null): void {
    this.#since = performance.now()
    this.#limitMs = limitMs
    if (limitMs === null) return
    if (this.#timer === null || this.#since + limitMs < this.#firesAt) this.#arm()
  }

  /** While we are not reading, the server cannot be late. */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (this.#paused) this.#since = performance.now()
    this.#paused = false
  }

  stop(): void {
    this.#limitMs = null
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  /** One timer, which checks the elapsed time when it fires: resetting it for every chunk would cost more. */
  #arm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#limitMs === null) return
    const now = performance.now()
    const waitedMs = this.#paused ? 0 : now - this.#since
    if (waitedMs >= this.#limitMs) return void this.#overdue(this.#limitMs)
    const leftMs = this.#limitMs - waitedMs
    this.#firesAt = now + leftMs
    // Node fires longer timeouts at once.
    this.#timer = setTimeout(() => this.#arm(), Math.min(Math.ceil(leftMs), 0x7fffffff))
    this.#timer.unref()
  }
}
