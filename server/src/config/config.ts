/**
 * The only reader of the environment, by the list in settings.ts. All problems are reported in one message, and the
 * value of a secret is never repeated in it.
 */
import { hostname } from 'node:os'
import path from 'node:path'
import { OperatorError } from '../errors.ts'
import { Refused, type Setting } from './setting-kinds.ts'
import { settings } from './settings.ts'

export class ConfigError extends OperatorError {
  readonly problems: string[]
  constructor(problems: string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n${problems.map((p) => `  - ${p}`).join('\n')}`,
    )
    this.name = 'ConfigError'
    this.problems = problems
  }
}

type Settings = typeof settings
type Value<S> = S extends { parse: (text: string) => infer T; default: infer D }
  ? T | (undefined extends D ? undefined : never)
  : never
type Environment = { -readonly [K in keyof Settings]: Value<Settings[K]> }

export interface Config extends Environment {
  /** Absolute. */
  DATA_DIR: string
  PUBLIC_URL: string
  FRONTEND_URL: string
  IDP_REDIRECT_URL: string
  /** Which settings came from the environment. */
  given: ReadonlySet<string>
  /** Identifies this process among many: shown in logs and on the runs that it holds. */
  instance: string
}

/** Reads the environment, once. Throws one ConfigError that lists every problem. */
export function readConfig(env: Record<string, string | undefined> = process.env): Config {
  const problems: string[] = []
  const config = readValues(settings, env, problems) as unknown as Config
  if (config.DATABASE_URL) {
    for (const name of ['JWT_SECRET_KEY', 'ENCRYPTION_KEY'] as const)
      if (!env[name]?.trim())
        problems.push(`${name}: is not set; it is required with DATABASE_URL, so that all machines share it`)
  }
  const idp = [
    'IDP_ISSUER',
    'IDP_CLIENT_ID',
    'IDP_CLIENT_SECRET',
    'IDP_AUTHORIZE_URL',
    'IDP_TOKEN_URL',
    'IDP_USERINFO_URL',
  ] as const
  if (idp.some((name) => config[name])) {
    if (!config.IDP_CLIENT_ID) problems.push('IDP_CLIENT_ID: is not set; it is required with the other IDP_ settings')
    const plain = config.IDP_AUTHORIZE_URL && config.IDP_TOKEN_URL && config.IDP_USERINFO_URL
    if (!config.IDP_ISSUER && !plain)
      problems.push('IDP_ISSUER: is not set; set it, or all of IDP_AUTHORIZE_URL, IDP_TOKEN_URL and IDP_USERINFO_URL')
  }
  checkBucketKeys(config, problems)
  if (config.SMTP_URL && !config.SMTP_FROM) problems.push('SMTP_FROM: is not set; it is required with SMTP_URL')
  if (problems.length > 0) throw new ConfigError(problems)

  config.DATA_DIR = path.resolve(config.DATA_DIR)
  const given = new Set(Object.keys(settings).filter((name) => env[name]?.trim()))
  return completeAddresses({ ...config, given, instance: `${hostname()}:${process.pid}` }, config.PORT)
}

function checkBucketKeys(config: Config, problems: string[]): void {
  if (!config.BLOB_URL?.startsWith('s3:')) return
  const ambient = config.S3_CREDENTIALS === 'ambient'
  for (const name of ['S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'] as const) {
    if (!ambient && !config[name])
      problems.push(`${name}: is not set; it is required with an s3 BLOB_URL, unless S3_CREDENTIALS is ambient`)
    if (ambient && config[name]) problems.push(`${name}: is set, but S3_CREDENTIALS is ambient; remove one of them`)
  }
}

function readValues(
  declared: Record<string, object>,
  env: Record<string, string | undefined>,
  problems: string[],
): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const [name, each] of Object.entries(declared)) {
    const setting = each as Setting<unknown>
    const given = env[name]?.trim()
    if (given === undefined || given === '') {
      values[name] = setting.default
      continue
    }
    try {
      values[name] = setting.parse(given)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      problems.push(
        `${name}: ${setting.secret ? 'the given value' : JSON.stringify(withoutPassword(given))} is not allowed; it must be ${error.message}`,
      )
    }
  }
  return values
}

/** Fills in the addresses that depend on the port, which is known only after listening if PORT is 0. */
export function completeAddresses(config: Config, port: number): Config {
  const host =
    config.HOST === '0.0.0.0' || config.HOST === '::'
      ? 'localhost'
      : config.HOST.includes(':')
        ? `[${config.HOST}]`
        : config.HOST
  const publicUrl = config.given.has('PUBLIC_URL') ? config.PUBLIC_URL : `http://${host}:${port}`
  return {
    ...config,
    PORT: port,
    PUBLIC_URL: publicUrl,
    FRONTEND_URL: config.given.has('FRONTEND_URL') ? config.FRONTEND_URL : publicUrl,
    IDP_REDIRECT_URL: config.given.has('IDP_REDIRECT_URL')
      ? config.IDP_REDIRECT_URL
      : `${publicUrl}/api/auth/idp/callback`,
  }
}

/** Any address may contain a password. */
const withoutPassword = (value: string): string => value.replace(/(?<=\/\/[^/?#]*:)[^/?#]*(?=@)/, '********')

/** The effective settings for display, secrets masked. */
export function describeConfig(config: Config): { name: string; value: string; given: boolean }[] {
  return Object.entries(settings).map(([name, declared]) => {
    const setting = declared as Setting<unknown>
    const value = (config as unknown as Record<string, unknown>)[name]
    const given = config.given.has(name)
    const absent = value === undefined || (Array.isArray(value) && value.length === 0)
    const plain = absent ? `(${setting.shown ?? 'not set'})` : withoutPassword(String(value))
    return { name, given, value: setting.secret && !absent ? '********' : plain }
  })
}

/** docs/configuration.md and the README's table. */
export function configurationTable(declared: Record<string, object> = settings): string {
  const rows = Object.entries(declared).map(([name, each]) => {
    const setting = each as Setting<unknown>
    const fallback =
      setting.shown ??
      (setting.default === undefined || (Array.isArray(setting.default) && setting.default.length === 0)
        ? '–'
        : `\`${setting.default}\``)
    return `| \`${name}\` | ${fallback} | ${setting.allowed} | ${setting.about}${setting.secret ? ' Secret.' : ''} |`
  })
  return ['| Setting | Default | Allowed | Meaning |', '|---|---|---|---|', ...rows].join('\n')
}
