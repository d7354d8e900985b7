/**
 * The client of the identity provider: OpenID Connect with discovery, or plain OAuth 2.0 with explicit addresses. Both use
 * the authorization code flow with PKCE. All requests obey the egress policy.
 */
import * as oidc from 'openid-client'
import type { Config } from '../config/config.ts'
import { asFetch, type Egress, EgressFailed, EgressRefused } from '../egress/policy.ts'
import { SignInError } from './provider-errors.ts'
import { type Identity, readIdentity } from './provider-identity.ts'

export type ProviderSettings = Pick<
  Config,
  | 'IDP_ISSUER'
  | 'IDP_CLIENT_ID'
  | 'IDP_CLIENT_SECRET'
  | 'IDP_REDIRECT_URL'
  | 'IDP_AUTHORIZE_URL'
  | 'IDP_TOKEN_URL'
  | 'IDP_USERINFO_URL'
  | 'IDP_SCOPE'
>

/** The secrets of one sign-in until the provider answers. */
export interface Challenge {
  state: string
  nonce: string
  code_verifier: string
}

export interface ProviderClient {
  makeChallenge(): Challenge
  /** Where to send the browser. Throws a SignInError when the provider cannot be reached. */
  authorizationUrl(challenge: Challenge): Promise<string>
  /** Exchanges the authorization code for the person's identity. `query` is the callback's query string, unchanged. */
  identify(query: string, challenge: Challenge): Promise<Identity>
}

const timeoutSeconds = 10
const maxAnswerBytes = 1024 * 1024
const rediscoverAfterMs = 60 * 60 * 1000

/** Null if no provider is configured. */
export function createProviderClient(settings: ProviderSettings, egress: Egress): ProviderClient | null {
  const clientId = settings.IDP_CLIENT_ID
  if (clientId === undefined) return null
  const redirectUri = withoutQuery(settings.IDP_REDIRECT_URL)
  const flow = settings.IDP_ISSUER
    ? createOpenIdFlow(settings.IDP_ISSUER, clientId, settings.IDP_CLIENT_SECRET, egress)
    : createPlainFlow(settings, clientId, egress)
  const scope = settings.IDP_SCOPE ?? flow.scope

  return {
    makeChallenge: () => ({
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      code_verifier: oidc.randomPKCECodeVerifier(),
    }),

    authorizationUrl: (challenge) =>
      translated(async () => {
        const parameters: Record<string, string> = {
          redirect_uri: redirectUri,
          scope,
          state: challenge.state,
          code_challenge: await oidc.calculatePKCECodeChallenge(challenge.code_verifier),
          code_challenge_method: 'S256',
        }
        if (flow.usesNonce) parameters.nonce = challenge.nonce
        return oidc.buildAuthorizationUrl(await flow.configuration(), parameters).href
      }),

    identify: (query, challenge) =>
      translated(async () => {
        const url = new URL(redirectUri)
        url.search = query
        return flow.identify(await flow.configuration(), url, challenge)
      }),
  }
}

interface Flow {
  scope: string
  usesNonce: boolean
  configuration(): Promise<oidc.Configuration>
  identify(configuration: oidc.Configuration, url: URL, challenge: Challenge): Promise<Identity>
}

function createOpenIdFlow(issuer: string, clientId: string, secret: string | undefined, egress: Egress): Flow {
  const server = new URL(issuer)
  const discover = async () => {
    const configuration = await oidc.discovery(server, clientId, undefined, undefined, {
      timeout: timeoutSeconds,
      [oidc.customFetch]: fetchOf(egress),
      execute: server.protocol === 'http:' ? [oidc.allowInsecureRequests] : [],
    })
    const found = configuration.serverMetadata()
    const methods = found.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    return configure(found, { clientId, secret, methods, egress })
  }
  return {
    scope: 'openid email profile',
    usesNonce: true,
    configuration: remember(async () => {
      const configuration = await discover()
      // The signature is checked although the token comes straight from the provider: it may come over plain http.
      oidc.enableNonRepudiationChecks(configuration)
      return configuration
    }),
    async identify(configuration, url, challenge) {
      const tokens = await oidc.authorizationCodeGrant(configuration, url, {
        pkceCodeVerifier: challenge.code_verifier,
        expectedNonce: challenge.nonce,
        expectedState: challenge.state,
        idTokenExpected: true,
      })
      const claims = tokens.claims()!
      if (claims.email !== undefined || !configuration.serverMetadata().userinfo_endpoint) {
        return readIdentity(claims.iss, claims)
      }
      return readIdentity(claims.iss, await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub))
    },
  }
}

function createPlainFlow(settings: ProviderSettings, clientId: string, egress: Egress): Flow {
  const userinfo = new URL(settings.IDP_USERINFO_URL!)
  const configuration = configure(
    {
      issuer: userinfo.origin,
      authorization_endpoint: settings.IDP_AUTHORIZE_URL!,
      token_endpoint: settings.IDP_TOKEN_URL!,
    },
    { clientId, secret: settings.IDP_CLIENT_SECRET, methods: ['client_secret_post'], egress },
  )
  return {
    scope: 'email profile',
    usesNonce: false,
    configuration: async () => configuration,
    async identify(_configuration, url, challenge) {
      // Plain OAuth 2.0 has no issuer to compare with.
      url.searchParams.delete('iss')
      const tokens = await oidc.authorizationCodeGrant(configuration, url, {
        pkceCodeVerifier: challenge.code_verifier,
        expectedState: challenge.state,
      })
      const headers = new Headers({ accept: 'application/json' })
      const response = await oidc.fetchProtectedResource(
        configuration,
        tokens.access_token,
        userinfo,
        'GET',
        undefined,
        headers,
      )
      if (!response.ok) throw new Error(`the user info answer has status ${response.status}`, { cause: response })
      const claims: unknown = await response.json()
      if (typeof claims !== 'object' || claims === null) throw new Error('the user info answer is not an object')
      return readIdentity(userinfo.origin, claims as Record<string, unknown>)
    },
  }
}

interface Client {
  clientId: string
  secret: string | undefined
  /** How it may authenticate. */
  methods: readonly string[]
  egress: Egress
}

function configure(server: oidc.ServerMetadata, { clientId, secret, methods, egress }: Client): oidc.Configuration {
  const configuration = new oidc.Configuration(server, clientId, undefined, authenticateClient(secret, methods))
  configuration[oidc.customFetch] = fetchOf(egress)
  configuration.timeout = timeoutSeconds
  const endpoints = [server.authorization_endpoint, server.token_endpoint, server.userinfo_endpoint, server.jwks_uri]
  if (endpoints.some((endpoint) => endpoint?.startsWith('http:'))) oidc.allowInsecureRequests(configuration)
  return configuration
}

function authenticateClient(secret: string | undefined, methods: readonly string[]): oidc.ClientAuth {
  if (secret === undefined) return oidc.None()
  return methods.includes('client_secret_basic') || !methods.includes('client_secret_post')
    ? oidc.ClientSecretBasic(secret)
    : oidc.ClientSecretPost(secret)
}

function fetchOf(egress: Egress): oidc.CustomFetch {
  return asFetch(egress, { timeoutMs: timeoutSeconds * 1000, maxBytes: maxAnswerBytes })
}

/** Discovers once for all waiting requests and again after an hour. If that fails, the last known answer is used. */
function remember(discover: () => Promise<oidc.Configuration>): () => Promise<oidc.Configuration> {
  let known: { configuration: oidc.Configuration; at: number } | null = null
  let running: Promise<oidc.Configuration> | null = null
  return async () => {
    if (known && Date.now() - known.at < rediscoverAfterMs) return known.configuration
    running ??= discover()
      .then((configuration) => {
        known = { configuration, at: Date.now() }
        return configuration
      })
      .catch((error: unknown) => {
        if (known) return known.configuration
        throw error
      })
      .finally(() => {
        running = null
      })
    return running
  }
}

function withoutQuery(address: string): string {
  const url = new URL(address)
  url.search = ''
  url.hash = ''
  return url.href
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof SignInError ? error : new SignInError(codeOf(error), error)
  }
}

const unavailableAnswers = new Set(['server_error', 'temporarily_unavailable'])
const timeoutCodes = new Set(['OAUTH_TIMEOUT', 'OAUTH_ABORT'])

function codeOf(error: unknown): 'access_denied' | 'provider_unavailable' | 'provider_error' {
  if (error instanceof oidc.AuthorizationResponseError) {
    if (error.error === 'access_denied') return 'access_denied'
    return unavailableAnswers.has(error.error) ? 'provider_unavailable' : 'provider_error'
  }
  for (let cause = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    if (cause instanceof EgressFailed || cause instanceof EgressRefused) return 'provider_unavailable'
    if (timeoutCodes.has(String((cause as { code?: unknown }).code))) return 'provider_unavailable'
    if (cause.cause instanceof Response && cause.cause.status >= 500) return 'provider_unavailable'
  }
  return 'provider_error'
}
