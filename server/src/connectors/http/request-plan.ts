/** One request: address, parameters, body, credentials, and what its answer means. */
import type { Json } from '../../json/json.ts'
import type { ErrorPolicy } from './error-policy.ts'
import type { Fields, Injection, Value } from './scope.ts'

export interface RequestPlan {
  method: string
  /** The whole address. Parameters may be in it; those of `params` are added, and replace those of the same name. */
  url: Value<string>
  /** Null and undefined are left out, an array gives one parameter per item, other values are written as text. */
  params: Value<Fields>
  /** Null is left out. */
  headers: Value<Fields>
  body: BodyPlan | null
  authentication: AuthenticationPlan
  /** The first policy with a filter that matches decides; if none does, the defaults apply (error-policy.ts). */
  errors: readonly ErrorPolicy[]
  /** A parent that several partitions go through: a small answer to GET is kept and used again within one read. */
  cache?: boolean
}

/** `json` may be any value and `form` an object of texts. GraphQL is `json` with `query` and `variables`. */
export type BodyPlan =
  | { kind: 'json'; value: Value<Json> }
  | { kind: 'form'; value: Value<Fields> }
  | { kind: 'text'; value: Value<string>; contentType?: string }

/** What is about to be sent. */
export interface OutgoingRequest {
  method: string
  url: URL
  headers: Readonly<Record<string, string>>
  body: string | undefined
}

export type AuthenticationPlan =
  | { kind: 'none' }
  /** What the source's own `authentication` says (`context.fetch` applies it). */
  | { kind: 'source' }
  /** A key or token: `value` is what is sent, `Bearer …` included where the API wants that. */
  | { kind: 'value'; value: Value<string>; at: Injection | { into: 'cookie'; path: readonly string[] } }
  | { kind: 'basic'; username: Value<string>; password: Value<string> }
  | OAuthPlan
  | SessionPlan
  | JwtPlan

/**
 * OAuth 2.0. A token is fetched at first use, kept until it expires and renewed when it is refused. A refresh token that
 * the server rotates is used from then on, and stored where the plan says so.
 */
export interface OAuthPlan {
  kind: 'oauth'
  /** The same key: the same token, for all requests of a plan. */
  key: string
  tokenUrl: Value<string>
  /** Everything of the token request: grant_type, client_id, client_secret, refresh_token, scope and more. */
  form: Value<Fields>
  headers: Value<Fields>
  /** As a form (the standard), JSON, or parameters of the address. */
  send: 'form' | 'json' | 'params'
  /** The field of `form` that holds the refresh token. Null: the grant has none. */
  refreshTokenField: string | null
  /** Paths in the answer. */
  accessTokenPath: readonly string[]
  expiresInPath: readonly string[]
  refreshTokenPath: readonly string[] | null
  /** The settings that hold the refresh token, and the access token with the moment of its expiry where it is stored, too. */
  stored?: { refreshToken: readonly string[]; accessToken: readonly string[] | null; expiry: readonly string[] | null }
  /** An answer that means that the refresh token is used up or revoked. Default: the standard's `invalid_grant`. */
  isUsedUp?: (status: number, body: Json) => boolean
  /** The answer holds the moment of expiry (read by this function, as epoch ms) instead of a number of seconds. */
  readExpiry?: (value: string | number) => number | null
  /** Where the answer does not say. Default: one hour. */
  usualLifetimeMs?: number
  /** A token that is used until `until` (epoch ms), before the first one is fetched. */
  initial?: Value<{ token: string; until: number } | null>
  /** Default: `Authorization: Bearer <token>`. */
  at?: Injection
  prefix?: string
}

/** A login request whose answer holds a token. */
export interface SessionPlan {
  kind: 'session'
  key: string
  login: RequestPlan
  tokenPath: readonly string[]
  /** Null: used until it is refused. */
  lifetimeMs: number | null
  at: Injection
  /** What is sent, of the token: `Bearer <token>`. */
  write(token: string): string
}

/** A token that is signed here. */
export interface JwtPlan {
  kind: 'jwt'
  key: string
  algorithm: string
  /** PEM for asymmetric algorithms, otherwise the shared secret. */
  secret: Value<string | Uint8Array>
  passphrase: Value<string> | null
  headers: Value<Fields>
  /** Without iat, nbf and exp, which are set when it is signed. */
  payload: Value<Fields>
  lifetimeMs: number
  at: Injection
  prefix: string | null
}
