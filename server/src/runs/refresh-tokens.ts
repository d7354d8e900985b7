/** The stored refresh token of a run's source. */
import { createRefreshTokens, type StoredRefreshTokens } from '../connections/refresh-tokens.ts'
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
    name: source.name,
    authentication: source.authentication,
    config: source.config,
    overrides: source.overrides ?? {},
  })
}
