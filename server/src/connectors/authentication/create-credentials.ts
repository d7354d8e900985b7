import type { Egress } from '../../egress/policy.ts'
import type { Authentication } from '../contract.ts'
import { authorization, basic, type Credentials, type Header, rememberToken } from './credentials.ts'
import { AuthenticationFailed } from './failed.ts'
import { OAuthCredentials } from './oauth-credentials.ts'
import type { RefreshTokens } from './refresh-tokens.ts'

/** Control characters, and everything beyond Latin-1: an ellipsis, say, from a token that was not copied whole. */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/

export function createCredentials(
  { type, params }: Authentication,
  egress: Egress,
  refreshTokens?: RefreshTokens,
): Credentials {
  const text = (name: string): string => {
    const value = params[name]
    if (typeof value === 'string' && value !== '') return value
    throw new AuthenticationFailed(`authentication of type ${type} needs the parameter ${name}`)
  }
  const token = (): string => {
    const value = text('token')
    if (!UNSENDABLE.test(value)) return value
    throw new AuthenticationFailed('the token has a character that no HTTP header can carry; copy it again')
  }
  const optional = (name: string): string | null => (params[name] ? text(name) : null)
  switch (type) {
    case 'api_key':
      return fixed(() => ({ name: optional('header')?.toLowerCase() ?? 'x-api-key', value: token() }))
    case 'bearer':
      return fixed(() => authorization(`Bearer ${token()}`))
    case 'basic':
      return fixed(() => authorization(basic(text('username'), String(params.password ?? ''))))
    case 'oauth2_client_credentials':
    case 'oauth2_refresh_token': {
      const refreshes = type === 'oauth2_refresh_token'
      return new OAuthCredentials(
        egress,
        () => ({
          url: text('token_url'),
          clientId: text('client_id'),
          clientSecret: refreshes ? optional('client_secret') : text('client_secret'),
          scope: optional('scope'),
          refreshToken: refreshes ? text('refresh_token') : null,
        }),
        refreshTokens,
      )
    }
    default:
      // A type defined by the author of a custom source: only their code knows how to use it.
      return fixed(() => null)
  }
}

function fixed(header: () => Header | null): Credentials {
  const obtained: string[] = []
  return {
    header,
    renew: () => false,
    renewable: false,
    settled: async () => {},
    obtained,
    remember: (token) => rememberToken(obtained, token),
  }
}
