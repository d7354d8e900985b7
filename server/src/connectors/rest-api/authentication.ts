/** The authentication of dlt's client. */
import type { AuthenticationPlan } from '../http/request-plan.ts'
import type { Fields } from '../http/scope.ts'
import { hintAtKnown } from '../settings/settings.ts'
import { fault } from './fault.ts'
import type { AuthSettings } from './settings.ts'

const FIELDS: Record<string, { required: readonly string[]; optional: readonly string[] }> = {
  bearer: { required: ['token'], optional: [] },
  api_key: { required: ['api_key'], optional: ['name', 'location'] },
  http_basic: { required: ['username', 'password'], optional: [] },
  oauth2_client_credentials: {
    required: ['access_token_url', 'client_id', 'client_secret'],
    optional: ['access_token_request_data', 'default_token_expiration'],
  },
}

/** Without `client.auth`, what the source's own authentication says. */
export function compileAuthentication(auth: AuthSettings | undefined, at: string): AuthenticationPlan {
  if (auth === undefined) return { kind: 'source' }
  const type = auth.type ?? 'bearer'
  const fields = Object.hasOwn(FIELDS, type) ? FIELDS[type]! : null
  if (fields === null)
    throw fault(
      `${at}.type`,
      `'${type.slice(0, 60)}' is not a type of authentication; there are ${Object.keys(FIELDS).join(', ')}`,
    )
  const known = [...fields.required, ...fields.optional]
  for (const name of Object.keys(auth))
    if (name !== 'type' && !known.includes(name))
      throw fault(`${at}.${name}`, `is not a setting of ${type}${hintAtKnown(name, known)}`)
  for (const name of fields.required)
    if (auth[name as keyof AuthSettings] === undefined) throw fault(`${at}.${name}`, `is required for ${type}`)
  return create(auth, type, at)
}

function create(auth: AuthSettings, type: string, at: string): AuthenticationPlan {
  if (type === 'bearer')
    return { kind: 'value', value: () => `Bearer ${auth.token}`, at: { into: 'header', path: ['Authorization'] } }
  if (type === 'http_basic') return { kind: 'basic', username: () => auth.username!, password: () => auth.password! }
  if (type === 'api_key') return { kind: 'value', value: () => auth.api_key!, at: keyPlace(auth, at) }
  return clientCredentials(auth, at)
}

function keyPlace({ location = 'header', name = 'Authorization' }: AuthSettings, at: string) {
  if (location === 'header') return { into: 'header', path: [name] } as const
  if (location === 'query' || location === 'param') return { into: 'param', path: [name] } as const
  if (location === 'cookie') return { into: 'cookie', path: [name] } as const
  throw fault(
    `${at}.location`,
    `'${location.slice(0, 60)}' is not a place for a key; use header, query, param or cookie`,
  )
}

function clientCredentials(auth: AuthSettings, at: string): AuthenticationPlan {
  const url = URL.parse(auth.access_token_url!)
  if (!url || !/^https?:$/.test(url.protocol)) throw fault(`${at}.access_token_url`, 'is not an http or https address')
  if (url.username !== '' || url.password !== '')
    throw fault(`${at}.access_token_url`, 'must not hold a user name or password')
  const { client_id, client_secret, access_token_request_data, default_token_expiration } = auth
  const form: Fields = {
    grant_type: 'client_credentials',
    client_id: client_id!,
    client_secret: client_secret!,
    ...access_token_request_data,
  }
  return {
    kind: 'oauth',
    key: at,
    tokenUrl: () => url.href,
    form: () => form,
    headers: () => ({}),
    send: 'form',
    refreshTokenField: null,
    accessTokenPath: ['access_token'],
    expiresInPath: ['expires_in'],
    refreshTokenPath: null,
    ...(default_token_expiration === undefined ? {} : { usualLifetimeMs: default_token_expiration * 1000 }),
  }
}
