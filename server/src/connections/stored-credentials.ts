/** The authentication inside a sealed config: where it stands, and whether it is the one that somebody holds. */
import type { Authentication } from '../connectors/contract.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { type Place, type SecretBox, SecretLost } from '../database/secret-box.ts'

/** A row with a sealed config. */
export interface Seat {
  organization_id: string
  table: keyof typeof AUTHENTICATION_PATHS
  id: string
}

/** A run's pinned config is `{ config }`, or says why there is none. */
const AUTHENTICATION_PATHS = {
  saved_connectors: ['authentication'],
  pipelines: ['source', 'authentication'],
  runs: ['config', 'source', 'authentication'],
} as const

export const placeOf = ({ organization_id, table, id }: Seat): Place => ({
  organization_id,
  column: `${table}.config_box`,
  row_id: id,
})

/** Null where its key is lost. */
export function openConfig(box: SecretBox, seat: Seat, sealed: Buffer): unknown {
  try {
    return box.open(placeOf(seat), sealed)
  } catch (error) {
    if (error instanceof SecretLost) return null
    throw error
  }
}

export function authenticationIn(table: Seat['table'], config: unknown): unknown {
  let found = config
  for (const name of AUTHENTICATION_PATHS[table]) found = isObject(found) ? found[name] : undefined
  return found
}

/** The token alone may differ: it is a grant to the same client at the same provider, renewed or given anew. */
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
