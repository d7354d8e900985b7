/** Requests to an OAuth 2.0 token endpoint (RFC 6749). The tenant chooses the server, so its answers are untrusted. */
import { type Egress, EgressFailed, EgressRefused, type WholeAnswer } from '../../egress/policy.ts'
import { basic } from './credentials.ts'
import { AuthenticationFailed } from './failed.ts'

export interface TokenEndpoint {
  url: string
  clientId: string
  /** Null for a public client. */
  clientSecret: string | null
  scope: string | null
}

export type Grant = { grant_type: 'client_credentials' } | { grant_type: 'refresh_token'; refresh_token: string }

export interface Tokens {
  access_token: string
  lifetimeMs: number
  /** Null if the one that was used stays valid. */
  refresh_token: string | null
}

const TIMEOUT_MS = 30_000
const MAX_BYTES = 256 * 1024
const LONGEST_TOKEN = 16 * 1024
const DEFAULT_LIFETIME_MS = 3_600_000
/** VSCHAR in the standard; other characters are not allowed in a header. */
const TOKEN = /^[\x20-\x7e]+$/

/**
 * The error codes of the standard. Other text from the server never gets into a message, because it could repeat a
 * secret.
 */
const CODES = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'invalid_scope',
  'unauthorized_client',
  'unsupported_grant_type',
  'access_denied',
  'server_error',
  'temporarily_unavailable',
])
/** With these codes the server has recognised the client, so sending its id another way would not help. */
const CLIENT_IS_KNOWN = new Set(['invalid_grant', 'invalid_scope', 'unauthorized_client', 'unsupported_grant_type'])

interface Reply {
  status: number
  /** Empty if the answer is not a JSON object. */
  fields: Record<string, unknown>
  code: string | null
}

/**
 * How the client identifies itself: in a header, as the standard prefers, or in the form, which is all some servers
 * read.
 */
export type ClientNaming = 'header' | 'form'

/** `naming` is the way that worked last time. Throws AuthenticationFailed. */
export async function askForTokens(
  egress: Egress,
  endpoint: TokenEndpoint,
  grant: Grant,
  naming: ClientNaming | null,
): Promise<Tokens & { naming: ClientNaming }> {
  const host = URL.parse(endpoint.url)?.host ?? 'the token address'
  const first = naming ?? (endpoint.clientSecret === null ? 'form' : 'header')
  let used = first
  let reply = await post(egress, endpoint, grant, first)
  if (first === 'header' && (reply.status === 400 || reply.status === 401) && !CLIENT_IS_KNOWN.has(reply.code ?? '')) {
    used = 'form'
    reply = await post(egress, endpoint, grant, 'form')
  }
  return { ...readTokens(reply, grant, host), naming: used }
}

async function post(
  egress: Egress,
  { url, clientId, clientSecret, scope }: TokenEndpoint,
  grant: Grant,
  naming: ClientNaming,
): Promise<Reply> {
  const form = new URLSearchParams({ ...grant })
  if (scope !== null) form.set('scope', scope)
  const headers: Record<string, string> = {
    'content-type': 'application/x-www-form-urlencoded',
    accept: 'application/json',
  }
  if (naming === 'header') {
    headers.authorization = basic(encodeURIComponent(clientId), encodeURIComponent(clientSecret ?? ''))
  } else {
    form.set('client_id', clientId)
    if (clientSecret !== null) form.set('client_secret', clientSecret)
  }
  try {
    const answer = await egress.fetch(url, {
      method: 'POST',
      headers,
      body: form.toString(),
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      // The form holds the credentials, so it is only ever sent to the given address.
      maxRedirects: 0,
    })
    return readReply(answer)
  } catch (error) {
    throw explain(error)
  }
}

function readReply({ status, body }: WholeAnswer): Reply {
  let value: unknown
  try {
    value = JSON.parse(body.toString())
  } catch {
    value = null
  }
  const fields = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  const code = typeof fields.error === 'string' && CODES.has(fields.error) ? fields.error : null
  return { status, fields, code }
}

function readTokens({ status, fields, code }: Reply, grant: Grant, host: string): Tokens {
  const { access_token, refresh_token, expires_in } = fields
  if (status < 200 || status > 299 || !isToken(access_token)) throw refusal(status, code, grant, host)
  const rotated = refresh_token === undefined || refresh_token === null || refresh_token === '' ? null : refresh_token
  if (rotated !== null && !isToken(rotated))
    throw new AuthenticationFailed(`${host} answered with a new refresh token that is not a valid token`)
  const seconds = Number(expires_in)
  return {
    access_token,
    lifetimeMs: seconds > 0 ? seconds * 1000 : DEFAULT_LIFETIME_MS,
    refresh_token: grant.grant_type === 'refresh_token' && rotated !== grant.refresh_token ? rotated : null,
  }
}

function isToken(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LONGEST_TOKEN && TOKEN.test(value)
}

function refusal(status: number, code: string | null, grant: Grant, host: string): AuthenticationFailed {
  if (code === 'invalid_grant' && grant.grant_type === 'refresh_token')
    return new AuthenticationFailed(
      `${host} no longer accepts the refresh token (invalid_grant); authorize the connection again and save the new refresh token`,
      { code },
    )
  const transient = status >= 500 || status === 429 || code === 'temporarily_unavailable'
  const advice =
    status >= 300 && status < 400
      ? 'token_url redirects, which is not followed; give the final address'
      : transient
        ? 'try again later'
        : 'check token_url, client_id, client_secret and scope'
  const said = code === null ? `status ${status}` : `status ${status}, ${code}`
  return new AuthenticationFailed(`${host} did not return a token (${said}); ${advice}`, { code, transient })
}

function explain(error: unknown): unknown {
  const refused = error instanceof EgressRefused
  if (!refused && !(error instanceof EgressFailed)) return error
  return new AuthenticationFailed(`no token could be fetched from token_url: ${error.message}`, {
    transient: !refused && error.transient,
    cause: error,
  })
}
