/**
 * How long a server that owes an answer may say nothing of it. Honest servers have statement timeouts of their own, which
 * end every statement with a message; one that withholds its last message would keep a run, and its place, until the
 * run's own time is up.
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

  /** Begins to wait anew. Null: for as long as it takes. */
  wait(limitMs: number | null): void {
    this.#since = performance.now()
    this.#limitMs = limitMs
    if (limitMs === null) return
    if (this.#timer === null || this.#since + limitMs < this.#firesAt) this.#arm()
  }

  /** While we are the ones who do not read, nobody is waited for. */
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

  /** One timer, which looks how long it has been when it fires: setting it anew for every chunk would cost more. */
  #arm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#limitMs === null) return
    const now = performance.now()
    const waitedMs = this.#paused ? 0 : now - this.#since
    if (waitedMs >= this.#limitMs) return void this.#overdue(this.#limitMs)
    const leftMs = this.#limitMs - waitedMs
    this.#firesAt = now + leftMs
    // Longer ones would fire at once.
    this.#timer = setTimeout(() => this.#arm(), Math.min(Math.ceil(leftMs), 0x7fffffff))
    this.#timer.unref()
  }
}
