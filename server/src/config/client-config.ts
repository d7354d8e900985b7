/** What commands that call a service read from the environment. They must start quickly, so this file loads little. */
import { homedir } from 'node:os'
import path from 'node:path'
import { UsageError } from '../errors.ts'

type Variables = Record<string, string | undefined>

/** For the commands that call a service, which may run on another machine; docs/configuration.md has this list. */
export const clientSettings = {
  SLUICE_URL: {
    default: 'http://127.0.0.1:8080',
    allowed: 'an address that begins with http:// or https://',
    about: 'Service that commands such as `sluice run` call. Wins over the one of `sluice login`.',
  },
  SLUICE_API_KEY: {
    default: undefined,
    allowed: 'an API key',
    secret: true,
    about: 'API key that they call it with. Wins over the one of `sluice login`.',
  },
  SLUICE_PROFILE: {
    default: undefined,
    shown: 'the last one signed in',
    allowed: 'a name',
    about: 'Profile that they use, of those that `sluice login --profile` has saved.',
  },
}

export interface ClientConfig {
  url: string | undefined
  key: string | undefined
  profile: string | undefined
}

export function readClientConfig(env: Variables = process.env): ClientConfig {
  const given = (name: keyof typeof clientSettings) => env[name]?.trim() || undefined
  const url = given('SLUICE_URL')
  return {
    url: url === undefined ? undefined : readAddress(url, 'SLUICE_URL'),
    key: given('SLUICE_API_KEY'),
    profile: given('SLUICE_PROFILE'),
  }
}

/** Without a slash at its end. It may have a path, where a proxy puts the service below one. */
export function readAddress(text: string, what: string): string {
  const address = URL.parse(text)
  if (address === null || !['http:', 'https:'].includes(address.protocol))
    throw new UsageError(`${what} must be ${clientSettings.SLUICE_URL.allowed}, not ${text}`)
  if (address.username || address.password || address.search || address.hash)
    throw new UsageError(`${what} must be the address of the service alone, without a password, ? or #`)
  return `${address.origin}${address.pathname.replace(/\/+$/, '')}`
}

/** The user's folder for settings of programs, by the XDG Base Directory Specification. */
export function configFolder(env: Variables = process.env): string {
  const given = env.XDG_CONFIG_HOME
  return path.join(given && path.isAbsolute(given) ? given : path.join(homedir(), '.config'), 'sluice')
}

/** https://no-color.org */
export const wantsColor = (env: Variables = process.env): boolean => !env.NO_COLOR && env.TERM !== 'dumb'

/** A variable that a file refers to. */
export const readVariable = (name: string): string | undefined => process.env[name]
