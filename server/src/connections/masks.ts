/**
 * Secrets for callers without write permission: shown as a mask, and restored when a mask is sent back. A built-in
 * connector marks its secrets. In anything else (a custom source, a connector that no longer exists) every text and every
 * number may be a secret and is masked.
 */
import { authenticationTypes, maskAuthentication } from '../connectors/authentication/authentication.ts'
import type { Authentication } from '../connectors/contract.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { MASK, maskSecrets, secretPaths } from '../connectors/settings/secrets.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { AppError } from '../errors.ts'
import type { Json } from '../json/json.ts'
import type { SavedSourceConfig } from './endpoint-shape.ts'

export function maskSourceConfig(connectorName: string, given: SavedSourceConfig): SavedSourceConfig {
  const source = findSource(connectorName)
  const { authentication, config } = given
  return {
    ...(authentication && { authentication: source ? maskAuthentication(authentication) : maskParams(authentication) }),
    ...(config && {
      config: (source ? maskSecrets(source.settings, config) : maskScalars(config)) as Record<string, Json>,
    }),
  }
}

export function maskDestinationConfig(connectorName: string, config: Record<string, Json>): Record<string, Json> {
  const destination = findDestination(connectorName)
  return (destination ? maskSecrets(destination.settings, config) : maskScalars(config)) as Record<string, Json>
}

/** The params of a custom source: only those that a known type declares as not secret stay readable. */
function maskParams(given: Authentication): Authentication {
  const schema = Object.hasOwn(authenticationTypes, given.type) ? authenticationTypes[given.type] : undefined
  const hidden = new Set(schema ? secretPaths(schema).map(([name]) => name) : [])
  const shown = Object.keys((schema as { properties?: object } | undefined)?.properties ?? {}).filter(
    (name) => !hidden.has(name),
  )
  const params = Object.entries(given.params ?? {}).map(([name, value]) => [name, shown.includes(name) ? value : MASK])
  return { ...given, params: Object.fromEntries(params) }
}

function maskScalars(value: Json): Json {
  if (typeof value === 'string') return value === '' ? '' : MASK
  if (typeof value === 'number') return MASK
  if (Array.isArray(value)) return value.map(maskScalars)
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, maskScalars(inner)]))
  return value
}

/**
 * For what is never sent back: addresses lose their user, password, query and fragment, which are secrets in many of them
 * (presigned ones of object stores, for example), although the setting is none.
 */
export function maskAddresses(value: unknown): unknown {
  if (typeof value === 'string') return /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? maskAddress(value) : value
  if (Array.isArray(value)) return value.map(maskAddresses)
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, maskAddresses(inner)]))
  return value
}

function maskAddress(text: string): string {
  if (!URL.canParse(text)) return MASK
  const { protocol, username, password, host, pathname, search, hash } = new URL(text)
  const user = username === '' && password === '' ? '' : `${MASK}@`
  return `${protocol}//${user}${host}${pathname}${search === '' ? '' : `?${MASK}`}${hash === '' ? '' : `#${MASK}`}`
}

/** Whether the input contains a mask, so that the stored value has to be decrypted. */
export function hasMask(value: unknown): boolean {
  if (value === MASK) return true
  return typeof value === 'object' && value !== null && Object.values(value).some(hasMask)
}

export const MISSING_SECRET = 'is a mask, but no secret is stored there; send the secret itself'

/** A copy of what was sent, with every mask replaced by the value stored at the same place. */
export function restoreMasks<T>(incoming: T, stored: unknown, path: string): T {
  if (incoming === MASK) {
    if (stored === undefined) throw new AppError('invalid_input', `${path}: ${MISSING_SECRET}`)
    return stored as T
  }
  if (Array.isArray(incoming))
    return incoming.map((item, index) =>
      restoreMasks(item, Array.isArray(stored) ? stored[index] : undefined, `${path}[${index}]`),
    ) as T
  if (!isObject(incoming)) return incoming
  return Object.fromEntries(
    Object.entries(incoming).map(([name, value]) => {
      const behind = isObject(stored) && Object.hasOwn(stored, name) ? stored[name] : undefined
      return [name, restoreMasks(value, behind, `${path}.${name}`)]
    }),
  ) as T
}
