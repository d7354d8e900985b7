/**
 * SECRETS=write_only: a stored secret is never shown again. A mask that is sent back keeps it, but only if nothing else
 * changes that could send it elsewhere: a caller who may not read a password must not be able to have it sent to a
 * server of theirs either. Settings that each pipeline may override (never an address) may change; for everything else
 * the secrets have to be sent again.
 *
 * What is sent is compared with what the caller sees, so a secret is kept only by its mask, never by its value: the answer
 * would tell whether a guess is right.
 */
import type { Config } from '../config/config.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { isObject, type Node } from '../connectors/settings/settings.ts'
import { AppError } from '../errors.ts'
import type { Json } from '../json/json.ts'
import type { SavedSourceConfig } from './endpoint-shape.ts'
import { hasMask, maskDestinationConfig, maskSourceConfig } from './masks.ts'

export type SecretRules = Pick<Config, 'SECRETS'>

interface Side {
  kind: 'source' | 'destination'
  /** The connector that the stored secrets belong to. */
  connector_name: string | undefined
  /** Whether the connector's settings are at the top level, as in a saved destination, instead of under `config`. */
  settings_at_top?: boolean
}

interface Change {
  incoming: unknown
  stored: unknown
  path: string
}

/** Throws if a mask would keep a stored secret across a change. */
export function requireKeptInPlace(rules: SecretRules, side: Side, { incoming, stored, path }: Change): void {
  if (rules.SECRETS === 'readable' || !hasMask(incoming)) return
  const free = overridesOf(side).map((name) => (side.settings_at_top ? `${path}.${name}` : `${path}.config.${name}`))
  const changed = findChange({ incoming, stored: maskStored(side, stored), path }, [...free, `${path}.stream`])
  if (changed !== null)
    throw new AppError(
      'invalid_input',
      `${changed}: cannot change while a stored secret is kept; send the secrets themselves instead of ${MASK}`,
    )
}

/** As the caller sees it. One that refers to a saved connector has no secrets. */
function maskStored({ kind, connector_name: name, settings_at_top }: Side, stored: unknown): unknown {
  if (name === undefined || !isObject(stored)) return stored
  if (kind === 'source') return { ...stored, ...maskSourceConfig(name, stored as SavedSourceConfig) }
  if (settings_at_top) return maskDestinationConfig(name, stored as Record<string, Json>)
  const { config } = stored as { config?: Record<string, Json> }
  return config ? { ...stored, config: maskDestinationConfig(name, config) } : stored
}

/** The settings that each pipeline may override: none of them is an address or a secret. */
export function overridesOf({ kind, connector_name = '' }: Side): string[] {
  const connector = kind === 'source' ? findSource(connector_name) : findDestination(connector_name)
  const { properties = {} } = (connector?.settings ?? {}) as Node
  return Object.keys(properties).filter((name) => properties[name]!.override && !properties[name]!.secret)
}

/** The first place where the two differ. A mask that is sent matches any stored value. */
function findChange({ incoming, stored, path }: Change, free: readonly string[]): string | null {
  if (incoming === MASK || free.includes(path)) return null
  if (Array.isArray(incoming) && Array.isArray(stored) && incoming.length === stored.length)
    return firstOf(
      incoming.map((item, index) => ({ incoming: item, stored: stored[index], path: `${path}[${index}]` })),
      free,
    )
  if (isObject(incoming) && isObject(stored)) {
    const names = new Set([...Object.keys(incoming), ...Object.keys(stored)])
    return firstOf(
      [...names].map((name) => ({ incoming: incoming[name], stored: stored[name], path: `${path}.${name}` })),
      free,
    )
  }
  return incoming === stored ? null : path
}

function firstOf(parts: Change[], free: readonly string[]): string | null {
  for (const part of parts) {
    const found = findChange(part, free)
    if (found !== null) return found
  }
  return null
}
