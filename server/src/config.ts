/**
 * The only reader of the environment. Settings are declared once, here; docs/configuration.md, `sluice config` and the
 * README's table come from the same list. All problems are collected and told in one message, and a secret's value is
 * never repeated in it.
 */
import { hostname } from 'node:os'
import path from 'node:path'
import { parseAllow } from './egress/allow-list.ts'
import { OperatorError } from './errors.ts'

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

/** Thrown by a parser; `allowed` completes the sentence "… is not allowed; it must be". */
class Refused extends Error {}

interface Setting<T> {
  parse: (text: string) => T
  /** Undefined means: no value unless given. */
  default: T
  /** How the default reads in the documentation, where it is computed. */
  shown?: string
  allowed: string
  about: string
  secret?: boolean
}

const text = (allowed = 'text'): Pick<Setting<string>, 'parse' | 'allowed'> => ({ parse: (value) => value, allowed })

function integer(min: number, max: number): Pick<Setting<number>, 'parse' | 'allowed'> {
  const allowed = `a whole number from ${min} to ${max}`
  return {
    allowed,
    parse(value) {
      const number = Number(value)
      if (!/^-?\d+$/.test(value) || number < min || number > max) throw new Refused(allowed)
      return number
    },
  }
}

function oneOf<T extends string>(...values: T[]): Pick<Setting<T>, 'parse' | 'allowed'> {
  const allowed = values.length === 1 ? `${values[0]}` : `one of ${values.join(', ')}`
  return {
    allowed,
    parse(value) {
      if (!(values as string[]).includes(value)) throw new Refused(allowed)
      return value as T
    },
  }
}

function url(...protocols: string[]): Pick<Setting<string>, 'parse' | 'allowed'> {
  const allowed = `an address that begins with ${protocols.map((p) => `${p}//`).join(' or ')}`
  return {
    allowed,
    parse(value) {
      if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol)) throw new Refused(allowed)
      return value.replace(/\/+$/, '')
    },
  }
}

const optional = <T>(setting: Pick<Setting<T>, 'parse' | 'allowed'>) =>
  ({ ...setting, default: undefined }) as Pick<Setting<T | undefined>, 'parse' | 'allowed' | 'default'>

const atLeast = (length: number): Pick<Setting<string>, 'parse' | 'allowed'> => {
  const allowed = `at least ${length} characters`
  return {
    allowed,
    parse(value) {
      if (value.length < length) throw new Refused(allowed)
      return value
    },
  }
}

const list: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list',
  parse: (value) =>
    value
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== ''),
}

const allowList: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of CIDRs, addresses, host names and host:port',
  parse(value) {
    const parsed = parseAllow(value)
    if ('problem' in parsed)
      throw new Refused(`a comma separated list of CIDRs, addresses, host names and host:port (${parsed.problem})`)
    return parsed.allow
  },
}

/** A key is 32 bytes in hex or base64, or a long text that is hashed to one. */
const keyRing: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of keys of at least 32 characters; the first one writes, all of them read',
  parse(value) {
    const keys = list.parse(value)
    if (keys.length === 0 || keys.some((key) => key.length < 32)) throw new Refused(keyRing.allowed)
    return keys
  },
}

export const settings = {
  HOST: { ...text('an address or host name'), default: '127.0.0.1', about: 'Address the service listens on.' },
  PORT: { ...integer(0, 65535), default: 8080, about: 'Port the service listens on; 0 takes a free one.' },
  PUBLIC_URL: {
    ...optional(url('http:', 'https:')),
    shown: 'http://HOST:PORT',
    about: 'Address under which people and identity providers reach the service.',
  },
  FRONTEND_URL: {
    ...optional(url('http:', 'https:')),
    shown: 'PUBLIC_URL',
    about:
      'Address of the web console: invitation links and sign-in redirects go there, and it alone may call the API from a browser of another origin.',
  },
  DATA_DIR: {
    ...text('a folder'),
    default: './data',
    about: 'Folder for everything that is kept: the embedded database, blobs and generated secrets.',
  },
  DATABASE_URL: {
    ...optional(url('postgres:', 'postgresql:')),
    secret: true,
    shown: 'the embedded PostgreSQL',
    about: 'A PostgreSQL to use instead of the embedded one. JWT_SECRET_KEY and ENCRYPTION_KEY are required with it.',
  },
  DATABASE_POOL: {
    ...integer(2, 500),
    default: 16,
    about: 'Connections to the database that one process keeps at most.',
  },
  BLOB_URL: {
    ...optional(url('file:', 's3:')),
    shown: 'DATA_DIR/blobs',
    about: 'Where outputs and logs lie: file:///folder or s3://bucket/prefix.',
  },
  ENCRYPTION_KEY: {
    ...optional(keyRing),
    secret: true,
    shown: 'made at the first start, kept under DATA_DIR',
    about: 'Keys that encrypt configurations at rest.',
  },
  JWT_SECRET_KEY: {
    ...optional(atLeast(8)),
    secret: true,
    shown: 'made at the first start, kept under DATA_DIR',
    about: 'Signing secret of tokens. Use 32 characters or more.',
  },
  JWT_ALGORITHM: {
    ...oneOf('HS256', 'HS384', 'HS512'),
    default: 'HS256' as const,
    about: 'Signing algorithm of tokens.',
  },
  JWT_ACCESS_TOKEN_EXPIRE_MINUTES: { ...integer(1, 525_600), default: 1440, about: 'Lifetime of an access token.' },
  JWT_REFRESH_TOKEN_EXPIRE_DAYS: { ...integer(1, 3650), default: 7, about: 'Lifetime of a refresh token.' },
  SIGNUP: {
    ...oneOf('open', 'invited'),
    default: 'open' as const,
    about: 'Who may register: anybody, or only addresses with a pending invitation.',
  },
  INVITATION_DAYS: { ...integer(1, 365), default: 7, about: 'Lifetime of an invitation.' },
  IDP_ISSUER: {
    ...optional(url('http:', 'https:')),
    about: 'Issuer of an OpenID Connect identity provider; its other addresses are discovered.',
  },
  IDP_CLIENT_ID: { ...optional(text()), about: 'Client id at the identity provider.' },
  IDP_CLIENT_SECRET: { ...optional(text()), secret: true, about: 'Client secret at the identity provider.' },
  IDP_REDIRECT_URL: {
    ...optional(url('http:', 'https:')),
    shown: 'PUBLIC_URL/api/auth/idp/callback',
    about: 'Callback address registered at the identity provider.',
  },
  IDP_AUTHORIZE_URL: {
    ...optional(url('http:', 'https:')),
    about: 'Authorization address of a plain OAuth 2.0 provider, instead of IDP_ISSUER.',
  },
  IDP_TOKEN_URL: { ...optional(url('http:', 'https:')), about: 'Token address of a plain OAuth 2.0 provider.' },
  IDP_USERINFO_URL: { ...optional(url('http:', 'https:')), about: 'User info address of a plain OAuth 2.0 provider.' },
  IDP_SCOPE: {
    ...optional(text()),
    shown: 'openid email profile',
    about: 'Scopes asked for at the identity provider.',
  },
  EGRESS_ALLOW: {
    ...allowList,
    default: [] as string[],
    about: 'CIDRs, host names and host:port that connectors and tenant code may reach although they are private.',
  },
  WORKER_CONCURRENCY: { ...integer(1, 1000), default: 8, about: 'Runs that one worker executes at a time.' },
  ORG_CONCURRENCY: { ...integer(1, 1000), default: 4, about: 'Runs of one organization that execute at a time.' },
  RUN_TIMEOUT_MINUTES: { ...integer(1, 525_600), default: 720, about: 'A run that takes longer fails.' },
  RUN_MEMORY_MB: { ...integer(128, 1_048_576), default: 512, about: 'A run whose executor grows past this fails.' },
  RUN_RETENTION_DAYS: {
    ...integer(1, 36_500),
    default: 30,
    about: 'Outputs and logs are removed after this time, except those of the last successful run.',
  },
  DRAIN_SECONDS: {
    ...integer(0, 3600),
    default: 8,
    about: 'At SIGTERM running work gets this long; the process ends at most 2 s later.',
  },
  ORG_STORAGE_GB: {
    ...optional(integer(1, 1_000_000)),
    shown: 'no limit',
    about: 'Storage that the outputs of one organization may take.',
  },
  CELL_MEMORY_MB: { ...integer(64, 65_536), default: 512, about: 'Memory of one Python cell.' },
  CELL_CPU_SECONDS: { ...integer(1, 1_000_000), default: 3600, about: 'CPU time of one run of a custom source.' },
  CELL_WALL_SECONDS: { ...integer(1, 1_000_000), default: 43_200, about: 'Wall time of one run of a custom source.' },
  CELL_MAX_RECORDS: {
    ...optional(integer(1, 2 ** 48)),
    shown: 'no limit',
    about: 'Records that one run of a custom source may give.',
  },
  CELL_MAX_BYTES: {
    ...optional(integer(1024, 2 ** 48)),
    shown: 'no limit',
    about: 'Bytes that one run of a custom source may give.',
  },
  CELL_LOG_BYTES: {
    ...integer(1024, 2 ** 30),
    default: 1_048_576,
    about: 'Bytes that one custom source may write to its log.',
  },
  CELL_MAX_REQUESTS: {
    ...integer(1, 2 ** 31),
    default: 1_000_000,
    about: 'HTTP requests that one run of a custom source may make.',
  },
  PYTHON: { ...text('a Python 3.9 or later'), default: 'python3', about: 'Python that runs custom sources.' },
  SANDBOX: {
    ...oneOf('required', 'none'),
    default: 'required' as const,
    about: '`none` runs tenant code without the cell: only for machines where every author is trusted.',
  },
  S3_ENDPOINT: { ...optional(url('http:', 'https:')), about: 'Address of an S3-compatible store.' },
  S3_REGION: { ...text(), default: 'us-east-1', about: 'Region of the S3 bucket.' },
  S3_ACCESS_KEY_ID: { ...optional(text()), about: 'Access key of the S3 bucket.' },
  S3_SECRET_ACCESS_KEY: { ...optional(text()), secret: true, about: 'Secret key of the S3 bucket.' },
  METRICS_TOKEN: {
    ...optional(atLeast(8)),
    secret: true,
    about: 'Bearer token for GET /metrics; without it metrics are off.',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: { ...optional(url('http:', 'https:')), about: 'Where traces are sent.' },
  TRUSTED_PROXIES: {
    ...list,
    default: [] as string[],
    about: 'Addresses and CIDRs of proxies whose X-Forwarded-For is believed.',
  },
  LOG_LEVEL: {
    ...oneOf('debug', 'info', 'warn', 'error', 'silent'),
    default: 'info' as const,
    about: 'How much the service logs.',
  },
} satisfies Record<string, Setting<never> | object>

type Settings = typeof settings
type Value<S> = S extends { parse: (text: string) => infer T; default: infer D }
  ? T | (undefined extends D ? undefined : never)
  : never
export type Environment = { -readonly [K in keyof Settings]: Value<Settings[K]> }

export interface Config extends Environment {
  /** Absolute. */
  DATA_DIR: string
  PUBLIC_URL: string
  FRONTEND_URL: string
  IDP_REDIRECT_URL: string
  /** Which settings came from the environment. */
  given: ReadonlySet<string>
  /** Names this process among many: shown in logs and on the runs that it holds. */
  instance: string
}

/** Reads the environment, once. Throws one ConfigError that lists every problem. */
export function readConfig(env: Record<string, string | undefined> = process.env): Config {
  const problems: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, declared] of Object.entries(settings)) {
    const setting = declared as Setting<unknown>
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
        `${name}: ${setting.secret ? 'the given value' : JSON.stringify(given)} is not allowed; it must be ${error.message}`,
      )
    }
  }
  const config = values as unknown as Config
  if (config.DATABASE_URL) {
    for (const name of ['JWT_SECRET_KEY', 'ENCRYPTION_KEY'] as const)
      if (!env[name]?.trim())
        problems.push(`${name}: nothing was given; it is required with DATABASE_URL, so that all machines share it`)
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
    if (!config.IDP_CLIENT_ID)
      problems.push('IDP_CLIENT_ID: nothing was given; it is required with the other IDP_ settings')
    const plain = config.IDP_AUTHORIZE_URL && config.IDP_TOKEN_URL && config.IDP_USERINFO_URL
    if (!config.IDP_ISSUER && !plain)
      problems.push(
        'IDP_ISSUER: nothing was given; give it, or all of IDP_AUTHORIZE_URL, IDP_TOKEN_URL and IDP_USERINFO_URL',
      )
  }
  if (config.BLOB_URL?.startsWith('s3:')) {
    for (const name of ['S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'] as const)
      if (!config[name]) problems.push(`${name}: nothing was given; it is required with an s3 BLOB_URL`)
  }
  if (problems.length > 0) throw new ConfigError(problems)

  config.DATA_DIR = path.resolve(config.DATA_DIR)
  const given = new Set(Object.keys(settings).filter((name) => env[name]?.trim()))
  return completeAddresses({ ...config, given, instance: `${hostname()}:${process.pid}` }, config.PORT)
}

/** Fills in the addresses that follow from the port, which is known only after listening when PORT is 0. */
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

/** The effective settings for people to read, secrets masked. */
export function describeConfig(config: Config): { name: string; value: string; given: boolean }[] {
  return Object.entries(settings).map(([name, declared]) => {
    const setting = declared as Setting<unknown>
    const value = (config as unknown as Record<string, unknown>)[name]
    const given = config.given.has(name)
    const plain = Array.isArray(value)
      ? value.join(',')
      : value === undefined
        ? `(${setting.shown ?? 'not set'})`
        : String(value)
    return { name, given, value: setting.secret && value !== undefined ? '********' : plain }
  })
}

/** docs/configuration.md and the README's table. */
export function configurationTable(): string {
  const rows = Object.entries(settings).map(([name, declared]) => {
    const setting = declared as Setting<unknown>
    const fallback =
      setting.shown ??
      (setting.default === undefined || (Array.isArray(setting.default) && setting.default.length === 0)
        ? '–'
        : `\`${setting.default}\``)
    return `| \`${name}\` | ${fallback} | ${setting.allowed} | ${setting.about}${setting.secret ? ' Secret.' : ''} |`
  })
  return ['| Setting | Default | Allowed | Meaning |', '|---|---|---|---|', ...rows].join('\n')
}
