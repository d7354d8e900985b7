/** The refresh token of a check, a stream listing or a preview: stored where it came from, if it is stored at all. */
import type { RefreshTokens } from '../connectors/authentication/refresh-tokens.ts'
import type { Database } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { createRefreshTokens, type TokenPlace } from './refresh-tokens.ts'
import type { CredentialHolder } from './stored-credentials.ts'

export interface CallTokens {
  refreshTokens: RefreshTokens
  /** What the caller must know about their token once the call is over. */
  note(): string | null
  close(): Promise<void>
}

const REPLACED =
  'The provider has rotated the refresh token, and the new one could not be saved because this configuration is not stored. ' +
  'The token that you gave no longer works: authorize again, and save the connector before you check it.'

/** For credentials that came with the request: they are not stored, so all we can do is to warn the caller. */
export function openUnstoredTokens(): CallTokens {
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

type Origin = TokenPlace['origin']

/** Where the credentials of a call are stored, or null if they came with the request. */
export function originOf(saved: string | undefined, pipeline?: string): Origin | null {
  if (saved !== undefined) return { table: 'saved_connectors', id: saved }
  return pipeline ? { table: 'pipelines', id: pipeline } : null
}

export function openTokens(
  { db, box }: { db: Database; box: SecretBox },
  organization_id: string,
  origin: Origin | null,
  { name, authentication, config, overrides = {} }: CredentialHolder,
): CallTokens {
  if (origin === null) return openUnstoredTokens()
  const refreshTokens = createRefreshTokens(db, box, {
    organization_id,
    origin,
    name,
    authentication,
    config,
    overrides,
  })
  return { refreshTokens, note: () => null, close: () => refreshTokens.close() }
}

export const withNote = (text: string, note: string | null): string => (note === null ? text : `${text}. ${note}`)
