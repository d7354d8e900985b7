/** The credentials inside an encrypted config: where they are, and whether they match those that a caller holds. */
import { isDeepStrictEqual } from 'node:util'
import type { KeptToken, SettingPath } from '../connectors/authentication/refresh-tokens.ts'
import type { Authentication } from '../connectors/contract.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { type Place, type SecretBox, SecretLost } from '../database/secret-box.ts'

/** A row with an encrypted config. */
export interface ConfigRow {
  organization_id: string
  table: keyof typeof SOURCE_PATHS
  id: string
}

/** Where the source is. A run's pinned config is `{ config }`, or an explanation why there is none. */
const SOURCE_PATHS = {
  saved_connectors: [],
  pipelines: ['source'],
  runs: ['config', 'source'],
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

/** What of a source holds credentials, and says where they are sent. */
export interface CredentialHolder {
  /** The connector. */
  name: string
  authentication: Authentication
  config: Record<string, unknown>
  /** The settings of the pipeline itself, if the others are those of a saved connector. */
  overrides?: Record<string, unknown>
}

export function sourceIn(table: ConfigRow['table'], config: unknown): Partial<CredentialHolder> {
  let found = config
  for (const name of SOURCE_PATHS[table]) found = isObject(found) ? found[name] : undefined
  return isObject(found) ? found : {}
}

/** A refresh token inside of a config that can be replaced there. */
export interface StoredToken {
  token: string
  /** It is a grant to the same client at the same provider, renewed or replaced. */
  same: boolean
  replace(token: string, also?: KeptToken['also']): void
}

/** `path`: it is a setting. Null: there is none. */
export function findToken(
  table: ConfigRow['table'],
  config: unknown,
  ours: CredentialHolder,
  path?: SettingPath,
): StoredToken | null {
  const source = sourceIn(table, config)
  if (path !== undefined) return findSetting(source, ours, path)
  const stored = source.authentication
  if (!isSameCredential(stored, ours.authentication)) return null
  return {
    token: String(stored.params.refresh_token),
    same: true,
    replace(token) {
      stored.params.refresh_token = token
    },
  }
}

/** Only the token may differ. */
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

function findSetting(source: Partial<CredentialHolder>, ours: CredentialHolder, path: SettingPath): StoredToken | null {
  const stored = source.config
  const owner = ownerOf(stored, path)
  const token = owner?.[path.at(-1)!]
  if (owner === null || typeof token !== 'string') return null
  return {
    token,
    same: isSameClient(source, ours, path),
    replace(replacement, also = []) {
      owner[path.at(-1)!] = replacement
      for (const { path: place, value } of also) {
        const holder = ownerOf(stored, place)
        if (holder !== null) holder[place.at(-1)!] = value
      }
    },
  }
}

/**
 * The source, its manifest and its settings say where a token is sent and whose it is: none of them has changed, so the
 * stored token may be sent where ours is.
 */
function isSameClient(stored: Partial<CredentialHolder>, ours: CredentialHolder, path: SettingPath): boolean {
  if (!isSameConnector(stored, ours)) return false
  const isFree = (place: SettingPath) =>
    isRotating(place) || isSamePath(place, path) || Object.hasOwn(ours.overrides ?? {}, place[0]!)
  return isSameBut(stored.config, ours.config, isFree)
}

/** The row of a saved connector has no name in its config, and its connector cannot change. */
export const isSameConnector = (stored: Partial<CredentialHolder>, ours: Partial<CredentialHolder>): boolean =>
  stored.name === undefined || stored.name === ours.name

/** What an exchange replaces besides the refresh token: nothing that could say where it is sent. */
const ROTATING =
  /^(?:oauth2?_?)?(?:(?:access|refresh)_?)?token(?:_?expir(?:y|es|ation)(?:_?(?:at|date|in|on|time))?)?$|^expir(?:y|es|ation)(?:_?(?:at|date|in|on|time))?$/i

export const isRotating = (path: SettingPath): boolean => ROTATING.test(path.at(-1)!)

export const isSamePath = (a: SettingPath, b: SettingPath): boolean =>
  a.length === b.length && a.every((name, index) => name === b[index])

/** Whether two configs differ only in settings that may: texts, numbers or nothing, never whole parts. */
export function isSameBut(
  a: unknown,
  b: unknown,
  isFree: (path: SettingPath) => boolean,
  path: SettingPath = [],
): boolean {
  if (isObject(a) && isObject(b))
    return namesOf(a, b).every((name) => isSameBut(ownValue(a, name), ownValue(b, name), isFree, [...path, name]))
  return isDeepStrictEqual(a, b) || (typeof a !== 'object' && typeof b !== 'object' && path.length > 0 && isFree(path))
}

/** The texts that differ, up to a number. */
export function findChangedTexts(
  a: unknown,
  b: unknown,
  path: SettingPath = [],
  found: SettingPath[] = [],
): SettingPath[] {
  if (found.length >= MOST_CHANGES) return found
  if (isObject(a) && isObject(b))
    for (const name of namesOf(a, b)) findChangedTexts(ownValue(a, name), ownValue(b, name), [...path, name], found)
  else if (typeof a === 'string' && typeof b === 'string' && a !== b) found.push(path)
  return found
}

const MOST_CHANGES = 200

const namesOf = (a: object, b: object): string[] => [...new Set([...Object.keys(a), ...Object.keys(b)])]

const ownValue = (owner: unknown, name: string): unknown =>
  isObject(owner) && Object.hasOwn(owner, name) ? owner[name] : undefined

function ownerOf(root: unknown, path: SettingPath): Record<string, unknown> | null {
  let owner = root
  for (const name of path.slice(0, -1)) owner = ownValue(owner, name)
  return isObject(owner) ? owner : null
}

export const valueAt = (root: unknown, path: SettingPath): unknown => path.reduce(ownValue, root)
