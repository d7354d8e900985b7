/**
 * The authentication of a source, put on its requests here in the host, so that the secret is in the cell only if the
 * author's code asks for it. A header that the author sets for a request wins. `egress` drops all of them when a redirect
 * leads to another origin.
 */
import type { Authentication } from '../connectors/contract.ts'
import type { Egress } from '../egress/policy.ts'

export class AuthenticationFailed extends Error {}

export interface Header {
  name: string
  value: string
}

export interface Credentials {
  /** The header to add, or null; a promise only where a server must be asked for it. */
  header(signal: AbortSignal): Promise<Header> | Header | null
  /** Called after a 401 with what was sent: true where a new token may help, and the request is worth sending again. */
  renew(refused: Header): boolean
  /** Secrets that were obtained on the way and must not appear in a log. */
  readonly obtained: readonly string[]
}

export function createCredentials(authentication: Authentication, egress: Egress): Credentials {
  const { type, params } = authentication
  const text = (name: string): string => {
    const value = params[name]
    if (typeof value === 'string' && value !== '') return value
    throw new AuthenticationFailed(`the authentication ${type} needs the parameter ${name}`)
  }
  const fixed = (make: () => Header | null): Credentials => ({
    header: make,
    renew: () => false,
    obtained: [],
  })
  switch (type) {
    case 'api_key':
      return fixed(() => ({ name: params.header ? text('header') : 'X-API-Key', value: text('token') }))
    case 'bearer':
      return fixed(() => ({ name: 'Authorization', value: `Bearer ${text('token')}` }))
    case 'basic':
      return fixed(() => ({ name: 'Authorization', value: basic(text('username'), String(params.password ?? '')) }))
    case 'oauth2_client_credentials':
      return new ClientCredentials(egress, {
        tokenUrl: () => text('token_url'),
        clientId: () => text('client_id'),
        clientSecret: () => text('client_secret'),
        scope: typeof params.scope === 'string' ? params.scope : '',
      })
    default:
      // A type of the author's own: only the author's code knows what to do with it.
      return fixed(() => null)
  }
}

function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

interface ClientSettings {
  tokenUrl(): string
  clientId(): string
  clientSecret(): string
  scope: string
}

const TOKEN_TIMEOUT_MS = 30_000
/** A token is renewed this long before it ends, so that none expires on its way. */
const RENEWAL_MARGIN_MS = 30_000
/** A server that gives out a new one for every request must not fill our memory with them. */
const REMEMBERED_TOKENS = 10
const LONGEST_TOKEN = 16 * 1024

class ClientCredentials implements Credentials {
  readonly #egress: Egress
  readonly #settings: ClientSettings
  readonly obtained: string[] = []
  #held: { value: string; until: number } | null = null
  #asking: Promise<{ value: string; until: number }> | null = null

  constructor(egress: Egress, settings: ClientSettings) {
    this.#egress = egress
    this.#settings = settings
  }

  async header(signal: AbortSignal): Promise<Header> {
    if (this.#held === null || this.#held.until <= Date.now()) {
      // Parallel requests share one request for a token.
      this.#asking ??= this.#ask(signal).finally(() => {
        this.#asking = null
      })
      this.#held = await this.#asking
    }
    return { name: 'Authorization', value: `Bearer ${this.#held.value}` }
  }

  renew(refused: Header): boolean {
    // Another request may have renewed it meanwhile.
    if (refused.value === `Bearer ${this.#held?.value}`) this.#held = null
    return true
  }

  async #ask(signal: AbortSignal): Promise<{ value: string; until: number }> {
    const { clientId, clientSecret } = this.#settings
    // The standard's own way first; servers that only read the form refuse it with 400 or 401.
    const header = basic(encodeURIComponent(clientId()), encodeURIComponent(clientSecret()))
    let answer = await this.#post({ authorization: header }, {}, signal)
    if (answer.status === 400 || answer.status === 401) {
      answer = await this.#post({}, { client_id: clientId(), client_secret: clientSecret() }, signal)
    }
    const token = readToken(answer.body)
    if (answer.status !== 200 || token === null) {
      const host = URL.parse(this.#settings.tokenUrl())?.host ?? 'the token address'
      throw new AuthenticationFailed(
        `${host} gave no token (status ${answer.status}); check token_url, client_id, client_secret and scope`,
      )
    }
    this.obtained.push(token.value)
    if (this.obtained.length > REMEMBERED_TOKENS) this.obtained.shift()
    return token
  }

  async #post(
    headers: Record<string, string>,
    fields: Record<string, string>,
    signal: AbortSignal,
  ): Promise<{ status: number; body: string }> {
    const { scope, tokenUrl } = this.#settings
    const form = new URLSearchParams({ grant_type: 'client_credentials', ...(scope ? { scope } : {}), ...fields })
    const response = await this.#egress.fetch(tokenUrl(), {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: form.toString(),
      signal,
      timeoutMs: TOKEN_TIMEOUT_MS,
      maxBytes: 1024 * 1024,
    })
    return { status: response.status, body: response.body.toString() }
  }
}

function readToken(body: string): { value: string; until: number } | null {
  let answer: unknown
  try {
    answer = JSON.parse(body)
  } catch {
    return null
  }
  if (typeof answer !== 'object' || answer === null) return null
  const { access_token: value, expires_in: seconds } = answer as Record<string, unknown>
  if (typeof value !== 'string' || value === '' || value.length > LONGEST_TOKEN) return null
  const lifetimeMs = Number(seconds) > 0 ? Number(seconds) * 1000 : 3_600_000
  return { value, until: Date.now() + Math.max(lifetimeMs - RENEWAL_MARGIN_MS, lifetimeMs / 2) }
}
