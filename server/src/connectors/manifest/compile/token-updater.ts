/**
 * `refresh_token_updater`: tokens that live in the settings. Each exchange replaces the refresh token there, and stores the
 * access token with its expiry, so that later runs use it as long as it lasts.
 */
import type { Json } from '../../../json/json.ts'
import type { OAuthPlan } from '../../http/request-plan.ts'
import { type Component, type Dict, given, isDict, optionalText } from '../component.ts'
import { timeFormat } from '../dates/format.ts'
import { parseIso } from '../dates/iso.ts'
import { valueAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import type { Environment, StoredSettings } from './environment.ts'

export interface Updater {
  /** The field of the answer that holds the new refresh token. */
  name: string
  /** The refresh token of the settings; null if they hold none. */
  token(): string | null
  initial: NonNullable<OAuthPlan['initial']>
  isUsedUp: NonNullable<OAuthPlan['isUsedUp']>
  /** Null: the token is not a setting as it stands, but computed from some. */
  stored: NonNullable<OAuthPlan['stored']> | null
}

export function compileUpdater(authenticator: Component, environment: Environment): Updater | null {
  const updater = given(authenticator, 'refresh_token_updater')
  if (!isDict(updater)) return null
  const { config } = environment
  const path = (field: string, usual: string): string[] => pathOf(updater, field) ?? ['credentials', usual]
  const [refresh, access, expiry] = [
    path('refresh_token_config_path', 'refresh_token'),
    path('access_token_config_path', 'access_token'),
    path('token_expiry_date_config_path', 'token_expiry_date'),
  ]
  return {
    name: optionalText(updater, 'refresh_token_name') ?? 'refresh_token',
    token: () => textAt(config, refresh),
    initial: () => {
      const [token, text] = [textAt(config, access), textAt(config, expiry)]
      const time = text === null ? null : (parseIso(text) ?? timeFormat('%s').parse(text))
      return token === null || time === null ? null : { token, until: time.seconds * 1000 }
    },
    isUsedUp: compileUsedUp(updater),
    stored: environment.stored === null ? null : findStored(environment.stored, config, { refresh, access, expiry }),
  }
}

function pathOf(updater: Dict, field: string): string[] | null {
  const path = given(updater, field)
  if (path === undefined) return null
  if (!Array.isArray(path) || path.length === 0)
    throw new Unsupported(`OAuthAuthenticator.refresh_token_updater.${field} is not a path`)
  return path.map(String)
}

function textAt(config: Json, path: readonly string[]): string | null {
  const value = valueAt(config, path)
  return typeof value === 'string' && value !== '' ? value : null
}

function compileUsedUp(updater: Dict): Updater['isUsedUp'] {
  const list = (field: string): Json[] | null => {
    const values = given(updater, field)
    return Array.isArray(values) && values.length > 0 ? values : null
  }
  const statuses = list('refresh_token_error_status_codes')
  const key = optionalText(updater, 'refresh_token_error_key') || 'error'
  const values = list('refresh_token_error_values') ?? ['invalid_grant']
  return (status, body) => {
    if (statuses !== null && !statuses.map(Number).includes(status)) return false
    return values.includes(valueAt(body, [key]) ?? null)
  }
}

interface Paths {
  refresh: string[]
  access: string[]
  expiry: string[]
}

/** The settings may have been moved by a migration: then the token is where its value is. */
function findStored({ settings, root, schema }: StoredSettings, config: Json, paths: Paths): Updater['stored'] {
  const token = textAt(config, paths.refresh)
  if (token === null) return null
  const at = textAt(settings, paths.refresh) === token ? paths.refresh : findText(settings, token)
  if (at === null) return null
  const takes = (path: string[]): string[] | null =>
    textAt(settings, path) !== null || declares(schema, path) ? [...root, ...path] : null
  return { refreshToken: [...root, ...at], accessToken: takes(paths.access), expiry: takes(paths.expiry) }
}

function findText(value: Json, text: string, path: string[] = []): string[] | null {
  if (value === text) return path
  if (!isDict(value) || path.length > 8) return null
  for (const [name, inner] of Object.entries(value)) {
    const found = findText(inner, text, [...path, name])
    if (found !== null) return found
  }
  return null
}

/** Whether the form has such a field: a value beyond the form would be refused by the next run. */
function declares(schema: Json, path: readonly string[], depth = 0): boolean {
  if (!isDict(schema) || depth > 10) return false
  const [name, ...rest] = path
  if (name === undefined) return true
  const choices = ['oneOf', 'anyOf', 'allOf'].flatMap((key) => {
    const list = schema[key]
    return Array.isArray(list) ? list : []
  })
  if (choices.some((choice) => declares(choice, path, depth + 1))) return true
  return isDict(schema.properties) && declares(schema.properties[name] ?? null, rest, depth + 1)
}
