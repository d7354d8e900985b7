/** The authentication inside an encrypted config: where it is, and whether it matches one that a caller holds. */
import type { Authentication } from '../connectors/contract.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { type Place, type SecretBox, SecretLost } from '../database/secret-box.ts'

/** A row with an encrypted config. */
export interface ConfigRow {
  organization_id: string
  table: keyof typeof AUTHENTICATION_PATHS
  id: string
}

/** A run's pinned config is `{ config }`, or an explanation why there is none. */
const AUTHENTICATION_PATHS = {
  saved_connectors: ['authentication'],
  pipelines: ['source', 'authentication'],
  runs: ['config', 'source', 'authentication'],
} as const

export const placeOf = ({ organization_id, table, id }: ConfigRow): Place => ({
  organization_id,
  column: `${table}.config_box`,
  row_id: id,
})

/** Null if its key is lost. */
export function openConfig(box: SecretBox, row: ConfigRow, sealed: Buffer): unknown {
  try {
    return box.open(placeOf(row), sealed)
  } catch (error) {
    if (error instanceof SecretLost) return null
    throw error
  }
}

export function authenticationIn(table: ConfigRow['table'], config: unknown): unknown {
  let found = config
  for (const name of AUTHENTICATION_PATHS[table]) found = isObject(found) ? found[name] : undefined
  return found
}

/** Only the token may differ: it is a grant to the same client at the same provider, renewed or replaced. */
export function isSameCredential(stored: unknown, ours: unknown): stored is Authentication {
  if (!isRefreshing(stored) || !isRefreshing(ours)) return false
  const [a, b] = [stored.params, ours.params]
  return a.token_url === b.token_url && a.client_id === b.client_id
}

function isRefreshing(value: unknown): value is Authentication {
  return (
    isObject(value) &&
    value.type === 'oauth2_refresh_token' &&
    isObject(value.params) &&
    typeof value.params.refresh_token === 'string'
  )
}
