/**
 * A token that is obtained at first use, used until it expires, and replaced when it is refused. Concurrent requests share
 * one attempt to obtain it (single-flight).
 */
export interface ObtainedToken {
  token: string
  /** Null: until it is refused. */
  lifetimeMs: number | null
}

/** Tokens are renewed this long before they expire, so that none expires in flight. */
const RENEWAL_MARGIN_MS = 30_000
/** A floor for very short lifetimes: without it, every request would obtain a new token. */
const SHORTEST_USE_MS = 5_000
/** Refused tokens are replaced at most this often per minute; after that the refusal is the answer. */
const MAX_RENEWALS = 5
const MINUTE_MS = 60_000

export class HeldToken {
  readonly #obtain: () => Promise<ObtainedToken>
  #held: { token: string; until: number } | null = null
  #asking: Promise<string> | null = null
  #renewals: number[] = []

  constructor(obtain: () => Promise<ObtainedToken>, initial: { token: string; until: number } | null = null) {
    this.#obtain = obtain
    this.#held = initial
  }

  get(): Promise<string> | string {
    if (this.#held !== null && this.#held.until > Date.now()) return this.#held.token
    if (this.#asking === null) {
      const asking = this.#ask().finally(() => {
        this.#asking = null
      })
      // The caller may have been aborted by the time this fails.
      asking.catch(() => {})
      this.#asking = asking
    }
    return this.#asking
  }

  /** Called when a request with this token was refused. True if a new one may help. */
  renew(refused: string): boolean {
    // A concurrent request may have renewed it already.
    if (refused !== this.#held?.token) return true
    const now = Date.now()
    this.#renewals = this.#renewals.filter((time) => time > now - MINUTE_MS)
    if (this.#renewals.length >= MAX_RENEWALS) return false
    this.#renewals.push(now)
    this.#held = null
    return true
  }

  async #ask(): Promise<string> {
    const { token, lifetimeMs } = await this.#obtain()
    const lasts =
      lifetimeMs === null
        ? Number.POSITIVE_INFINITY
        : Math.max(lifetimeMs - RENEWAL_MARGIN_MS, lifetimeMs / 2, SHORTEST_USE_MS)
    this.#held = { token, until: Date.now() + lasts }
    return token
  }
}
