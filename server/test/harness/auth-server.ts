/**
 * A token endpoint and a gate in front of whatever a test serves. The gate checks exactly what arrives: the name of the
 * header, the scheme, the encoding, and whether an access token was issued by it and is still valid. Refresh tokens are
 * rotated at each use, and one that is used twice revokes the grant, as careful providers do.
 */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Authentication } from '../../src/connectors/contract.ts'

export type AuthType = 'api_key' | 'bearer' | 'basic' | 'oauth2_client_credentials' | 'oauth2_refresh_token'

export const AUTH_TYPES: readonly AuthType[] = [
  'api_key',
  'bearer',
  'basic',
  'oauth2_client_credentials',
  'oauth2_refresh_token',
]

export interface TokenRequest {
  headers: IncomingHttpHeaders
  form: Record<string, string>
  /** The status it was answered with. */
  status: number
}

export interface AuthServer {
  url: string
  tokenUrl: string
  /** How the token endpoint wants the client to identify itself; anything else is 401. */
  naming: 'header' | 'form'
  /** Whether each use of a refresh token rotates it. */
  rotates: boolean
  /** The lifetime of an access token as the answers state it. */
  expiresIn: unknown
  tokenRequests: TokenRequest[]
  /** Replaces the token endpoint; undefined restores it. */
  onToken: ((request: IncomingMessage, response: ServerResponse) => unknown) | undefined
  /** Awaited before the token endpoint answers. */
  beforeToken: (() => Promise<void>) | undefined
  /** Called for every request that the gate checks, with the number of requests since the last reset. */
  onRequest: ((count: number) => void) | undefined
  /** Restores the defaults of everything above and clears the records. */
  reset(): void
  /** Params with which the gate opens. A refresh token is a new grant each time. */
  good(type: AuthType): Authentication
  bad(type: AuthType): Authentication
  /** From now on only requests with what `good(type)` returns are let in. */
  guard(type: AuthType): void
  admits(headers: IncomingHttpHeaders): boolean
  /** Expires all access tokens. */
  expireTokens(): void
  /** The current refresh token of the grant that started with this one. */
  currentToken(first: string): string
  /** Texts that must never be shown: everything above, and what was issued since. */
  secrets: string[]
  close(): Promise<void>
}

const KEY = 'key-3f:9a/+=&'
const USER = 'üser name'
const PASSWORD = 'päss:word/+='
const CLIENT = 'client id&1'
const CLIENT_SECRET = 'client:secret/+=%'

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

interface RefreshGrant {
  current: string
  used: Set<string>
  revoked: boolean
}

export async function startAuthServer(): Promise<AuthServer> {
  let made = 0
  let requests = 0
  let guarded: AuthType = 'bearer'
  const accessTokens = new Set<string>()
  const grants = new Map<string, RefreshGrant>()
  const secrets = [KEY, PASSWORD, CLIENT_SECRET, 'wrong-secret-41aa']
  const make = (kind: string): string => {
    const token = `${kind}-${++made}-${'x'.repeat(20)}~._-/+=`
    secrets.push(token)
    return token
  }

  const server = createServer(async (request, response) => {
    if (auth.onToken) return void auth.onToken(request, response)
    const form = Object.fromEntries(new URLSearchParams(await text(request)))
    await auth.beforeToken?.()
    const { status, body } = answerToken(request, form)
    auth.tokenRequests.push({ headers: request.headers, form, status })
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })

  function answerToken(request: IncomingMessage, form: Record<string, string>): { status: number; body: object } {
    const refuse = (status: number, error: string) => ({ status, body: { error, error_description: CLIENT_SECRET } })
    if (request.method !== 'POST' || request.headers['content-type'] !== 'application/x-www-form-urlencoded')
      return refuse(400, 'invalid_request')
    if (!namesClient(request.headers, form)) return refuse(401, 'invalid_client')
    if (form.grant_type === 'client_credentials') return { status: 200, body: giveAccess() }
    if (form.grant_type !== 'refresh_token') return refuse(400, 'unsupported_grant_type')
    const grant = [...grants.values()].find(({ current, used }) =>
      [current, ...used].includes(form.refresh_token ?? ''),
    )
    if (!grant) return refuse(400, 'invalid_grant')
    // A token that is used again was stolen: the grant is revoked.
    if (grant.used.has(form.refresh_token!)) grant.revoked = true
    if (grant.revoked) return refuse(400, 'invalid_grant')
    if (!auth.rotates) return { status: 200, body: giveAccess() }
    grant.used.add(grant.current)
    grant.current = make('refresh')
    return { status: 200, body: { ...giveAccess(), refresh_token: grant.current } }
  }

  function namesClient(headers: IncomingHttpHeaders, form: Record<string, string>): boolean {
    if (auth.naming === 'form')
      return headers.authorization === undefined && form.client_id === CLIENT && form.client_secret === CLIENT_SECRET
    const named = headers.authorization === basic(encodeURIComponent(CLIENT), encodeURIComponent(CLIENT_SECRET))
    return named && form.client_id === undefined && form.client_secret === undefined
  }

  function giveAccess(): object {
    const access_token = make('access')
    accessTokens.add(access_token)
    return { access_token, token_type: 'Bearer', expires_in: auth.expiresIn }
  }

  function paramsOf(type: AuthType, secret: string): Authentication['params'] {
    const client = { token_url: auth.tokenUrl, client_id: CLIENT, client_secret: secret, scope: 'read write' }
    switch (type) {
      case 'api_key':
        return { token: secret }
      case 'bearer':
        return { token: secret }
      case 'basic':
        return { username: USER, password: secret }
      case 'oauth2_client_credentials':
        return client
      case 'oauth2_refresh_token': {
        const first = make('refresh')
        grants.set(first, { current: first, used: new Set(), revoked: false })
        return { ...client, refresh_token: first }
      }
    }
  }

  const rightSecrets: Record<AuthType, string> = {
    api_key: KEY,
    bearer: KEY,
    basic: PASSWORD,
    oauth2_client_credentials: CLIENT_SECRET,
    oauth2_refresh_token: CLIENT_SECRET,
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const auth: AuthServer = {
    url,
    tokenUrl: `${url}/token`,
    naming: 'header',
    rotates: true,
    expiresIn: 3600,
    tokenRequests: [],
    onToken: undefined,
    beforeToken: undefined,
    onRequest: undefined,
    reset() {
      requests = 0
      Object.assign(auth, { naming: 'header', rotates: true, expiresIn: 3600, tokenRequests: [] })
      Object.assign(auth, { onToken: undefined, beforeToken: undefined, onRequest: undefined })
    },
    secrets,
    good: (type) => ({ type, params: paramsOf(type, rightSecrets[type]) }),
    bad: (type) => ({ type, params: paramsOf(type, 'wrong-secret-41aa') }),
    guard(type) {
      guarded = type
    },
    admits(headers) {
      auth.onRequest?.(++requests)
      const { authorization } = headers
      if (guarded === 'api_key') return headers['x-api-key'] === KEY && authorization === undefined
      if (headers['x-api-key'] !== undefined) return false
      if (guarded === 'bearer') return authorization === `Bearer ${KEY}`
      if (guarded === 'basic') return authorization === basic(USER, PASSWORD)
      return authorization?.startsWith('Bearer ') === true && accessTokens.has(authorization.slice('Bearer '.length))
    },
    expireTokens: () => accessTokens.clear(),
    currentToken: (first) => grants.get(first)!.current,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return auth
}
