/** The refresh token of a check, a stream listing or a preview: stored where it came from, if it is stored at all. */
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import type { Authentication } from '../connectors/contract.ts'
import type { Database } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { createRefreshTokens } from './refresh-tokens.ts'

export interface CallTokens {
  /** Undefined if the authentication has no refresh token. */
  refreshTokens?: RefreshTokens
  /** What the caller must know about their token once the call is over. */
  note(): string | null
  close(): Promise<void>
}

const REPLACED =
  'The provider has rotated the refresh token, and the new one could not be saved because this configuration is not stored. ' +
  'The token that you gave no longer works: authorize again, and save the connector before you check it.'

const NONE: CallTokens = { note: () => null, close: async () => {} }

/** For an authentication that came with the request: it is not stored, so all we can do is to warn the caller. */
export function openUnstoredTokens(authentication: Authentication | null): CallTokens {
  if (authentication?.type !== 'oauth2_refresh_token') return NONE
  let replaced = false
  return {
    refreshTokens: {
      begin: async (held) => held,
      async end(used, rotated) {
        replaced ||= rotated !== null
        return rotated ?? used
      },
    },
    note: () => (replaced ? REPLACED : null),
    close: async () => {},
  }
}

/** For a saved connector. */
export function openSavedTokens(
  { db, box }: { db: Database; box: SecretBox },
  organization_id: string,
  id: string,
  authentication: Authentication,
): CallTokens {
  if (authentication.type !== 'oauth2_refresh_token') return NONE
  const origin = { table: 'saved_connectors' as const, id }
  const refreshTokens = createRefreshTokens(db, box, { organization_id, origin, authentication })
  return { refreshTokens, note: () => null, close: () => refreshTokens.close() }
}

export const withNote = (text: string, note: string | null): string => (note === null ? text : `${text}. ${note}`)
