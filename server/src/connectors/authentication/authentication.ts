/** The authentication types of sources and their params. Custom sources may define other types, with any params. */
import { type TObject, Type } from '../../schema.ts'
import { type Authentication, secret } from '../contract.ts'
import { MASK, maskSecrets, secretValues } from '../settings/secrets.ts'
import { findSettingsFaults, isObject } from '../settings/settings.ts'

const closed = { additionalProperties: false }
const text = (description: string) => Type.String({ minLength: 1, description })
const tokenUrl = Type.String({ pattern: '^https?://', description: 'The http or https address of the token endpoint.' })
const scope = Type.Optional(text('Scopes, separated by spaces.'))

export const authenticationTypes: Readonly<Record<string, TObject>> = {
  none: Type.Object({}, closed),
  api_key: Type.Object(
    {
      token: secret(text('The key.')),
      header: Type.Optional(
        Type.String({
          pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
          description: 'The name of the header that carries the key. Default: X-API-Key.',
        }),
      ),
    },
    closed,
  ),
  bearer: Type.Object({ token: secret(text('The bearer token.')) }, closed),
  basic: Type.Object({ username: text('The user name.'), password: secret(Type.String()) }, closed),
  oauth2_client_credentials: Type.Object(
    {
      token_url: tokenUrl,
      client_id: text('The client.'),
      client_secret: secret(text('Its secret.')),
      scope,
    },
    closed,
  ),
  oauth2_refresh_token: Type.Object(
    {
      token_url: tokenUrl,
      client_id: text('The client.'),
      client_secret: Type.Optional(secret(text('Its secret; a public client has none.'))),
      refresh_token: secret(text('The refresh token. If the provider rotates it, the new one is stored in its place.')),
      scope,
    },
    closed,
  ),
}

/** Every param is a secret that each log line is searched for, so their number is limited. */
const MAX_PARAMS = 100

export const NO_AUTHENTICATION: Authentication = { type: 'none', params: {} }

/** Faults of an `authentication` object. `allowed` null: any type (custom sources). `none` is always accepted. */
export function findAuthenticationFaults(value: unknown, allowed: readonly string[] | null, path: string): string[] {
  if (!isObject(value)) return [`${path}: must be an object with type and params`]
  const unknown = Object.keys(value).filter((name) => name !== 'type' && name !== 'params')
  if (unknown.length > 0)
    return unknown.map((name) => `${path}.${name}: unknown field; the known fields are type, params`)
  if (typeof value.type !== 'string' || value.type === '') return [`${path}.type: must be a string`]
  if (value.params !== undefined && !isObject(value.params)) return [`${path}.params: must be an object`]
  if (Object.keys(value.params ?? {}).length > MAX_PARAMS)
    return [`${path}.params: must have at most ${MAX_PARAMS} parameters`]
  const schema = Object.hasOwn(authenticationTypes, value.type) ? authenticationTypes[value.type] : undefined
  if (allowed !== null && value.type !== 'none' && !allowed.includes(value.type)) {
    return [`${path}.type: '${value.type.slice(0, 60)}' is not supported here; use ${[...allowed, 'none'].join(', ')}`]
  }
  if (allowed === null || !schema) return []
  const faults = findSettingsFaults(schema, value.params ?? {}, `${path}.params`)
  return faults.length > 0 ? faults : findUrlFaults((value.params ?? {}) as Authentication['params'], `${path}.params`)
}

/** Checks that a schema pattern cannot express. */
function findUrlFaults({ token_url }: Authentication['params'], path: string): string[] {
  if (typeof token_url !== 'string') return []
  const url = URL.parse(token_url)
  if (!url) return [`${path}.token_url: is not a URL`]
  if (url.username !== '' || url.password !== '')
    return [`${path}.token_url: must not hold a user name or password; give client_id and client_secret`]
  return []
}

/** A copy with its secrets masked. In an unknown type every param may be a secret. */
export function maskAuthentication(value: Authentication): Authentication {
  const schema = schemaOf(value)
  if (schema) return { ...value, params: maskSecrets(schema, value.params) as Authentication['params'] }
  return { ...value, params: Object.fromEntries(Object.keys(value.params ?? {}).map((name) => [name, MASK])) }
}

/** The secrets inside, for the redaction of logs. */
export function authenticationSecrets(value: Authentication): string[] {
  const schema = schemaOf(value)
  if (schema) return secretValues(schema, value.params)
  return Object.values(value.params ?? {}).filter((param): param is string => typeof param === 'string' && param !== '')
}

function schemaOf(value: Authentication): TObject | undefined {
  return Object.hasOwn(authenticationTypes, value.type) ? authenticationTypes[value.type] : undefined
}
