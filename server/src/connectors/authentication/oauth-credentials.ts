/**
 * OAuth 2.0 access tokens: fetched on first use, cached until they expire, renewed when a server refuses one.
 * Concurrent requests share one token request (single-flight).
 */
import type { Egress } from '../../egress/policy.ts'
import { authorization, type Credentials, type Header, rememberToken } from './credentials.ts'
import { AuthenticationFailed } from './failed.ts'
import { type RefreshTokens, unstored } from './refresh-tokens.ts'
import { askForTokens, type ClientNaming, type TokenEndpoint, type Tokens } from './token-endpoint.ts'

export interface OAuthSettings extends TokenEndpoint {
  /** Null for the client credentials grant. */
  refreshToken: string | null
}

/** Tokens are renewed this long before they expire, so that none expires in flight. */
const RENEWAL_MARGIN_MS = 30_000
/** A floor for very short lifetimes: without it, every request would fetch a new token. */
const SHORTEST_USE_MS = 5_000
/** Refused tokens are replaced at most this often per minute; after that the 401 is returned. */
const MAX_RENEWALS = 30
const MINUTE_MS = 60_000

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
      // The caller may have been aborted by the time this fails.
      asking.catch(() => {})
      this.#asking = asking
    }
    return this.#asking
  }

  renew(refused: Header): boolean {
    // A concurrent request may have renewed it already.
    if (refused.value !== this.#held?.header.value) return true
    const now = Date.now()
    this.#renewals = this.#renewals.filter((time) => time > now - MINUTE_MS)
    if (this.#renewals.length >= MAX_RENEWALS) return false
    this.#renewals.push(now)
    this.#held = null
    return true
  }

  async settled(): Promise<void> {
    await this.#asking?.catch(() => {})
  }

  /** Not tied to any abort signal: the answer may hold the only refresh token that is still valid. */
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
      // Another process may have rotated it since it was read.
      const newer = await this.#refreshTokens.begin(used)
      if (newer !== used) return this.#exchange(settings, newer)
      await this.#refreshTokens.end(used, null)
      throw error
    }
  }

  /** A rotated token is stored before anything that came with it is used. */
  async #exchange(settings: OAuthSettings, used: string): Promise<Tokens> {
    try {
      const tokens = await this.#fetch(settings, { grant_type: 'refresh_token', refresh_token: used })
      this.#refreshToken = await this.#refreshTokens.end(used, tokens.refresh_token)
      return tokens
    } catch (error) {
      // The first error is the one to report.
      await this.#refreshTokens.end(used, null).catch(() => {})
      throw error
    }
  }

  async #fetch(settings: OAuthSettings, grant: Parameters<typeof askForTokens>[2]): Promise<Tokens> {
    const { naming, ...tokens } = await askForTokens(this.#egress, settings, grant, this.#naming)
    this.#naming = naming
    this.remember(tokens.access_token)
    if (tokens.refresh_token !== null) this.remember(tokens.refresh_token)
    return tokens
  }

  remember(token: string): void {
    rememberToken(this.obtained, token)
  }
}
