import type { Egress } from '../../egress/policy.ts'
import type { Authentication } from '../contract.ts'
import { authorization, basic, type Credentials, type Header } from './credentials.ts'
import { AuthenticationFailed } from './failed.ts'
import { OAuthCredentials } from './oauth-credentials.ts'
import type { RefreshTokens } from './refresh-tokens.ts'

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
  const optional = (name: string): string | null => (params[name] ? text(name) : null)
  switch (type) {
    case 'api_key':
      return fixed(() => ({ name: optional('header')?.toLowerCase() ?? 'x-api-key', value: text('token') }))
    case 'bearer':
      return fixed(() => authorization(`Bearer ${text('token')}`))
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

const fixed = (header: () => Header | null): Credentials => ({
  header,
  renew: () => false,
  renewable: false,
  settled: async () => {},
  obtained: [],
})
