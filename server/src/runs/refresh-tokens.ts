/** The refresh token of a run's source: where it is stored, and what its executor is answered about it. */
import { createRefreshTokens, type StoredRefreshTokens } from '../connections/refresh-tokens.ts'
import type { FromExecutor, ToExecutor } from '../executors/messages.ts'
import type { ConfiguredAttempt } from './attempt.ts'

export function refreshTokensOf({ services, run, pinned }: ConfiguredAttempt): StoredRefreshTokens {
  const { source } = pinned.config
  return createRefreshTokens(services.db, services.box, {
    organization_id: run.organization_id,
    origin:
      source.saved_connector_id === undefined
        ? { table: 'pipelines', id: run.pipeline_id }
        : { table: 'saved_connectors', id: source.saved_connector_id },
    run: { id: run.id, attempt: run.attempt },
    authentication: source.authentication,
  })
}

/** What the executor is told. A failure is the run's: it goes on with no token that is not stored. */
export async function answerAboutToken(
  tokens: StoredRefreshTokens,
  message: Extract<FromExecutor, { type: 'refresh_begin' | 'refresh_end' }>,
): Promise<ToExecutor> {
  const { id } = message
  try {
    const token =
      message.type === 'refresh_begin'
        ? await tokens.begin(message.held)
        : await tokens.end(message.used, message.rotated)
    return { type: 'refresh_token', id, token }
  } catch {
    return { type: 'refused', id, message: 'The refresh token could not be stored, so it was not used.' }
  }
}
