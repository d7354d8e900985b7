/** How the rows of one checkpoint come in, and when its transaction has been open for long enough. */

/** A transaction this old asks for its checkpoint. */
const OPEN_MS = 5000
const FAST_BYTES_PER_MS = 2048

export class CheckpointClock {
  readonly #request: () => void
  #waitsSince: number | null = null
  #asked = false
  #timer: NodeJS.Timeout | undefined

  constructor(request: () => void) {
    this.#request = request
  }

  pageCame(): void {
    this.#waitsSince ??= performance.now()
  }

  /** Whether so many bytes came fast since the first page. */
  isFast(bytes: number): boolean {
    return bytes >= (performance.now() - (this.#waitsSince ?? 0)) * FAST_BYTES_PER_MS
  }

  /** Its transaction has begun. */
  start(): void {
    this.#timer = setTimeout(() => this.ask(), OPEN_MS).unref()
  }

  /** Once for each checkpoint: until it comes there may be many pages on the way. */
  ask(): void {
    if (this.#asked) return
    this.#asked = true
    this.#request()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#waitsSince = null
    this.#asked = false
  }
}
