/**
 * Access tokens of OAuth 2.0: fetched when they are needed, kept while they last, renewed when a server refuses one.
 * Requests that need a token at the same time share one request for it.
 */
import type { Egress } from '../../egress/policy.ts'
import { authorization, type Credentials, type Header } from './credentials.ts'
import { AuthenticationFailed } from './failed.ts'
import { type RefreshTokens, unstored } from './refresh-tokens.ts'
import { askForTokens, type ClientNaming, type TokenEndpoint, type Tokens } from './token-endpoint.ts'

export interface OAuthSettings extends TokenEndpoint {
  /** Null for the client credentials grant. */
  refreshToken: string | null
}

/** A token is renewed this long before it ends, so that none expires on its way. */
const RENEWAL_MARGIN_MS = 30_000
/** However short a token is said to last: without a floor, every request would ask for a new one. */
const SHORTEST_USE_MS = 5_000
/** Refused tokens are replaced this often in a minute; then the refusals stand. */
const MOST_RENEWALS = 30
const MINUTE_MS = 60_000
/** A server that gives out a new token for every request must not fill our memory with them. */
const REMEMBERED = 20

interface Held {
  header: Header
  until: number
}

export class OAuthCredentials implements Credentials {
  readonly renewable = true
  readonly obtained: string[] = []
  readonly #egress: Egress
  readonly #settings: () => OAuthSettings
  readonly #refreshTokens: RefreshTokens
  #refreshToken: string | null = null
  #naming: ClientNaming | null = null
  #held: Held | null = null
  #asking: Promise<Header> | null = null
  #renewals: number[] = []

  constructor(egress: Egress, settings: () => OAuthSettings, refreshTokens: RefreshTokens = unstored) {
    this.#egress = egress
    this.#settings = settings
    this.#refreshTokens = refreshTokens
  }

  header(): Promise<Header> | Header {
    if (this.#held !== null && this.#held.until > Date.now()) return this.#held.header
    if (this.#asking === null) {
      const asking = this.#ask().finally(() => {
        this.#asking = null
      })
      // Whoever asked may be gone by the time it fails.
      asking.catch(() => {})
      this.#asking = asking
    }
    return this.#asking
  }

  renew(refused: Header): boolean {
    // Another request may have renewed it meanwhile.
    if (refused.value !== this.#held?.header.value) return true
    const now = Date.now()
    this.#renewals = this.#renewals.filter((time) => time > now - MINUTE_MS)
    if (this.#renewals.length >= MOST_RENEWALS) return false
    this.#renewals.push(now)
    this.#held = null
    return true
  }

  async settled(): Promise<void> {
    await this.#asking?.catch(() => {})
  }

  /** Not ended by any signal: its answer may hold the only refresh token that is valid from now on. */
  async #ask(): Promise<Header> {
    const settings = this.#settings()
    const tokens =
      settings.refreshToken === null
        ? await this.#fetch(settings, { grant_type: 'client_credentials' })
        : await this.#refresh(settings, this.#refreshToken ?? settings.refreshToken)
    const lasts = Math.max(tokens.lifetimeMs - RENEWAL_MARGIN_MS, tokens.lifetimeMs / 2, SHORTEST_USE_MS)
    const header = authorization(`Bearer ${tokens.access_token}`)
    this.#held = { header, until: Date.now() + lasts }
    return header
  }

  async #refresh(settings: OAuthSettings, held: string): Promise<Tokens> {
    const used = await this.#refreshTokens.begin(held)
    try {
      return await this.#exchange(settings, used)
    } catch (error) {
      if (!(error instanceof AuthenticationFailed) || error.code !== 'invalid_grant') throw error
      // It may have been replaced between our look at it and its use.
      const newer = await this.#refreshTokens.begin(used)
      if (newer !== used) return this.#exchange(settings, newer)
      await this.#refreshTokens.end(used, null)
      throw error
    }
  }

  /** A replacement is stored before anything that came with it is used. */
  async #exchange(settings: OAuthSettings, used: string): Promise<Tokens> {
    try {
      const tokens = await this.#fetch(settings, { grant_type: 'refresh_token', refresh_token: used })
      this.#refreshToken = await this.#refreshTokens.end(used, tokens.refresh_token)
      return tokens
    } catch (error) {
      // What went wrong first is what counts.
      await this.#refreshTokens.end(used, null).catch(() => {})
      throw error
    }
  }

  async #fetch(settings: OAuthSettings, grant: Parameters<typeof askForTokens>[2]): Promise<Tokens> {
    const { naming, ...tokens } = await askForTokens(this.#egress, settings, grant, this.#naming)
    this.#naming = naming
    this.#remember(tokens.access_token)
    if (tokens.refresh_token !== null) this.#remember(tokens.refresh_token)
    return tokens
  }

  #remember(token: string): void {
    this.obtained.push(token)
    if (this.obtained.length > REMEMBERED) this.obtained.shift()
  }
}
