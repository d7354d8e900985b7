/** Puts the credentials of a plan into a request. Tokens are shared by all requests with the same key. */
import type { WholeAnswer } from '../../egress/policy.ts'
import { EgressFailed, EgressRefused } from '../../egress/policy.ts'
import type { Json } from '../../json/json.ts'
import { basic } from '../authentication/credentials.ts'
import { AuthenticationFailed } from '../authentication/failed.ts'
import { HeldToken, type ObtainedToken } from '../authentication/held-token.ts'
import { signJwt } from '../authentication/sign-jwt.ts'
import type { Exchanged, Fetch, RunLog } from '../contract.ts'
import { type Draft, inject, seal, setHeader, writeText } from './outgoing.ts'
import { lookUp } from './paths.ts'
import type { AuthenticationPlan, JwtPlan, OAuthPlan, SessionPlan } from './request-plan.ts'
import type { Answer, Fields, Injection, Scope } from './scope.ts'

type TokenPlan = OAuthPlan | SessionPlan | JwtPlan

const TIMEOUT_MS = 30_000
const MAX_BYTES = 256 * 1024
const DEFAULT_LIFETIME_MS = 3_600_000
const LONGEST_TOKEN = 16 * 1024
const AUTHORIZATION: Injection = { into: 'header', path: ['Authorization'] }

const NOT_STORED =
  'The provider replaced the refresh token, which is no setting of its own. The new one is used for the rest of this ' +
  'attempt and is not stored: if the provider accepts each token only once, the next attempt needs a new token.'

/** Sends the login request of a session and returns its answer. */
export type Login = (plan: SessionPlan, scope: Scope) => Promise<Answer>

export class Authenticator {
  readonly #fetch: Fetch
  readonly #log: RunLog
  readonly #login: Login
  readonly #tokens = new Map<string, HeldToken>()
  /** Rotated by the server; they replace the one of the settings. */
  readonly #refreshTokens = new Map<string, string>()

  constructor({ fetch, log }: { fetch: Fetch; log: RunLog }, login: Login) {
    this.#fetch = fetch
    this.#log = log
    this.#login = login
  }

  /** Returns the token that it used, where `renew` may replace it. */
  async apply(plan: AuthenticationPlan, draft: Draft, scope: Scope): Promise<string | null> {
    switch (plan.kind) {
      case 'none':
      case 'source':
        return null
      case 'basic':
        setHeader(draft, 'Authorization', basic(plan.username(scope), plan.password(scope)))
        return null
      case 'value': {
        const { into, path } = plan.at
        if (into === 'cookie') setHeader(draft, 'Cookie', `${path[0]}=${plan.value(scope)}`)
        else inject(draft, { into, path }, plan.value(scope))
        return null
      }
      default: {
        const token = await this.#held(plan, scope).get()
        inject(draft, plan.at ?? AUTHORIZATION, writeToken(plan, token))
        return token
      }
    }
  }

  renew(plan: AuthenticationPlan, refused: string): boolean {
    return 'key' in plan && (this.#tokens.get(plan.key)?.renew(refused) ?? false)
  }

  #held(plan: TokenPlan, scope: Scope): HeldToken {
    let held = this.#tokens.get(plan.key)
    if (!held) {
      const initial = plan.kind === 'oauth' ? (plan.initial?.(scope) ?? null) : null
      held = new HeldToken(async () => {
        const obtained = await this.#obtain(plan, scope)
        this.#fetch.remember(obtained.token)
        return obtained
      }, initial)
      this.#tokens.set(plan.key, held)
    }
    return held
  }

  async #obtain(plan: TokenPlan, scope: Scope): Promise<ObtainedToken> {
    if (plan.kind === 'jwt') return { token: sign(plan, scope), lifetimeMs: plan.lifetimeMs }
    if (plan.kind === 'oauth') return this.#askForToken(plan, scope)
    const answer = await this.#login(plan, scope)
    const token = readToken(answer.find(plan.tokenPath))
    if (token !== null) return { token, lifetimeMs: plan.lifetimeMs }
    throw new AuthenticationFailed(`The login did not return a token at ${plan.tokenPath.join('.')}.`)
  }

  async #askForToken(plan: OAuthPlan, scope: Scope): Promise<ObtainedToken> {
    const form: Fields = { ...plan.form(scope) }
    const name = plan.refreshTokenField
    const held = name === null ? null : (this.#refreshTokens.get(plan.key) ?? readToken(form[name]))
    if (name === null || held === null) return (await this.#exchange(plan, form, scope)).obtained
    const use = async (token: string): Promise<TokenAnswer> => {
      const answer = await this.#exchange(plan, { ...form, [name]: token }, scope)
      return answer.rotated === token ? { ...answer, rotated: null } : answer
    }
    if (plan.stored === undefined) {
      const { obtained, rotated } = await use(held)
      if (rotated !== null && !this.#refreshTokens.has(plan.key)) this.#log.warn(NOT_STORED)
      this.#refreshTokens.set(plan.key, rotated ?? held)
      return obtained
    }
    const { stored } = plan
    let last: TokenAnswer | null = null
    const next = await this.#fetch.exchange(held, stored.refreshToken, async (token) => {
      last = await use(token)
      return { rotated: last.rotated, also: accompanying(stored, last.obtained) }
    })
    this.#refreshTokens.set(plan.key, next)
    return last!.obtained
  }

  async #exchange(plan: OAuthPlan, form: Fields, scope: Scope): Promise<TokenAnswer> {
    const url = URL.parse(plan.tokenUrl(scope))
    if (!url) throw new AuthenticationFailed('The address of the token endpoint is not a URL.')
    const answer = await this.#post(tokenDraft(url, plan, form, scope), plan.stored !== undefined)
    const body = readBody(answer)
    const token = readToken(lookUp(body, plan.accessTokenPath))
    if (answer.status < 200 || answer.status > 299 || token === null)
      throw refusal(answer, url.host, isUsedUp(plan, answer.status, body))
    const rotated = plan.refreshTokenPath === null ? null : readToken(lookUp(body, plan.refreshTokenPath))
    this.#fetch.remember(token)
    if (rotated !== null) this.#fetch.remember(rotated)
    return { obtained: { token, lifetimeMs: readLifetime(plan, lookUp(body, plan.expiresInPath)) }, rotated }
  }

  /** `whole`: it ends only with its answer, which may hold the only refresh token that is still valid. */
  async #post(draft: Draft, whole: boolean): Promise<WholeAnswer> {
    const { url, method, headers, body } = seal(draft)
    try {
      return await this.#fetch(url, {
        method,
        headers: { accept: 'application/json', ...headers },
        ...(body === undefined ? {} : { body }),
        authenticate: false,
        timeoutMs: TIMEOUT_MS,
        maxBytes: MAX_BYTES,
        // The form holds the credentials, so it is only ever sent to the given address.
        maxRedirects: 0,
        ...(whole && { signal: new AbortController().signal }),
      })
    } catch (error) {
      if (!(error instanceof EgressFailed) && !(error instanceof EgressRefused)) throw error
      const transient = error instanceof EgressFailed && error.transient
      throw new AuthenticationFailed(`No token could be fetched: ${error.message}`, { transient, cause: error })
    }
  }
}

interface TokenAnswer {
  obtained: ObtainedToken
  rotated: string | null
}

/** The access token is stored along with the refresh token, for later runs. */
function accompanying(
  { accessToken, expiry }: NonNullable<OAuthPlan['stored']>,
  { token, lifetimeMs }: ObtainedToken,
): Exchanged['also'] {
  if (accessToken === null || expiry === null || lifetimeMs === null) return []
  const until = new Date(Date.now() + lifetimeMs).toISOString()
  return [
    { path: accessToken, value: token },
    { path: expiry, value: until },
  ]
}

function isUsedUp(plan: OAuthPlan, status: number, body: Json): boolean {
  return plan.isUsedUp?.(status, body) ?? lookUp(body, ['error']) === 'invalid_grant'
}

function tokenDraft(url: URL, plan: OAuthPlan, form: Fields, scope: Scope): Draft {
  const draft: Draft = {
    method: 'POST',
    url,
    foreign: false,
    headers: {},
    json: plan.send === 'json' ? form : undefined,
    form: plan.send === 'form' ? form : undefined,
    text: undefined,
    contentType: undefined,
  }
  if (plan.send === 'params')
    for (const [name, value] of Object.entries(form)) inject(draft, { into: 'param', path: [name] }, value)
  for (const [name, value] of Object.entries(plan.headers(scope))) setHeader(draft, name, value)
  return draft
}

function writeToken(plan: TokenPlan, token: string): string {
  if (plan.kind === 'session') return plan.write(token)
  const prefix = plan.kind === 'oauth' ? (plan.prefix ?? (plan.at ? '' : 'Bearer')) : (plan.prefix ?? '')
  return prefix === '' ? token : `${prefix} ${token}`
}

function sign(plan: JwtPlan, scope: Scope): string {
  const now = Math.floor(Date.now() / 1000)
  return signJwt({
    algorithm: plan.algorithm,
    secret: plan.secret(scope),
    passphrase: plan.passphrase?.(scope) ?? null,
    headers: plan.headers(scope),
    payload: { iat: now, nbf: now, exp: now + Math.floor(plan.lifetimeMs / 1000), ...plan.payload(scope) },
  })
}

function readBody({ body }: WholeAnswer): Json {
  try {
    return JSON.parse(body.toString()) as Json
  } catch {
    return null
  }
}

function readToken(value: Json | undefined): string | null {
  if (value === undefined || value === null || typeof value === 'object') return null
  const text = writeText(value)
  return text !== '' && text.length <= LONGEST_TOKEN && /^[\x20-\x7e]+$/.test(text) ? text : null
}

function readLifetime(
  { readExpiry, usualLifetimeMs = DEFAULT_LIFETIME_MS }: OAuthPlan,
  value: Json | undefined,
): number {
  if (typeof value !== 'string' && typeof value !== 'number') return usualLifetimeMs
  const until = readExpiry?.(value) ?? null
  if (until !== null) return Math.max(0, until - Date.now())
  const seconds = Number(value)
  return seconds > 0 ? seconds * 1000 : usualLifetimeMs
}

/** Nothing of the answer's text: it could repeat a secret. */
function refusal({ status }: WholeAnswer, host: string, usedUp: boolean): AuthenticationFailed {
  if (usedUp)
    return new AuthenticationFailed(
      `${host} no longer accepts the refresh token (status ${status}); authorize again and save the new one.`,
      { code: 'invalid_grant' },
    )
  const transient = status >= 500 || status === 429
  const advice = transient ? 'try again later' : 'check the address and the credentials of the token request'
  return new AuthenticationFailed(`${host} did not return a token (status ${status}); ${advice}.`, { transient })
}
