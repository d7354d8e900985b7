/**
 * An organization, or one domain with what its pipelines use, as objects for files: by name, in a fixed order, with
 * references in the place of secrets. Whoever may see an object gets it; nobody gets a secret.
 */
import type { SavedSourceConfig } from '../connections/endpoint-shape.ts'
import { maskDestinationConfig, maskSourceConfig } from '../connections/masks.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { AppError, notFound } from '../errors.ts'
import { maskPipelineConfig } from '../pipelines/masks.ts'
import type { Stores } from '../pipelines/pipelines.ts'
import type { Actor } from '../tenancy/actor.ts'
import { hasSecretInAddress } from './addresses.ts'
import { describeSeveral, toNames } from './connection-names.ts'
import { type Current, mayRead, readCurrent } from './current.ts'
import { escapeText, referTo } from './references.ts'
import { nameSecrets, type SecretPlace } from './secret-names.ts'
import { KINDS, type Kind } from './shape.ts'

export interface Exported {
  objects: Described
  /** Kinds that the caller may not read. */
  omitted: Kind[]
}

export async function exportOrganization(
  stores: Pick<Stores, 'db' | 'box'>,
  actor: Actor,
  { domain }: { domain?: string | undefined },
): Promise<Exported> {
  const may = mayRead(actor)
  const all = await readCurrent(stores, actor, { withCode: true })
  const current = domain === undefined ? all : narrow(all, domain)
  requireDistinct(current)
  const objects = describe(current)
  replaceSecrets(objects, current)
  return { objects, omitted: KINDS.filter((kind) => !may[kind]) }
}

/** One domain: its pipelines, and what they use. */
function narrow(all: Current, name: string): Current {
  const domain = all.domains.find((each) => each.name === name.trim())
  if (!domain) throw notFound('Domain')
  const pipelines = all.pipelines.filter(({ domain_id }) => domain_id === domain.id)
  const used = new Set(
    pipelines.flatMap(({ saved_source_id, saved_destination_id }) => [saved_source_id, saved_destination_id]),
  )
  const connections = all.connections.filter(({ id }) => used.has(id))
  const names = new Set([
    ...pipelines.map(({ source_name }) => source_name),
    ...connections.map(({ connector_name }) => connector_name),
  ])
  const sources = all.sources.filter(({ source_name }) => names.has(source_name))
  return { ...all, domains: [domain], pipelines, connections, sources }
}

/** Files refer to objects by name, so two of the same name cannot be told apart. */
function requireDistinct({ pipelines, connections }: Current): void {
  const keys = [
    ...pipelines.map(({ name }) => ({ what: 'pipelines', name })),
    ...connections.map(({ type, name }) => ({ what: `saved ${type}s`, name })),
  ]
  const several = [...Map.groupBy(keys, ({ what, name }) => `${what} ${name}`).values()].filter(
    ({ length }) => length > 1,
  )
  if (several.length === 0) return
  const shown = several.slice(0, 20).map((same) => describeSeveral(same[0]!.what, same.length, same[0]!.name))
  throw new AppError(
    'conflict',
    [...shown, ...(several.length > 20 ? [`and ${several.length - 20} more`] : [])].join('\n'),
  )
}

type Described = Record<Kind, Record<string, unknown>[]>

function describe({ domains, sources, connections, pipelines, connectionNames }: Current): Described {
  const domainNames = new Map(domains.map(({ id, name }) => [id, name]))
  return {
    domains: sorted(domains).map(({ name, description, color }) => ({ name, ...set({ description, color }) })),
    sources: sorted(sources, 'source_name').map(({ source_name, name, description, language, code }) => ({
      source_name,
      name,
      ...set({ description, language: language === 'python' ? null : language }),
      code,
    })),
    connections: sorted(connections).map(({ name, type, connector_name, description, config }) => ({
      name,
      type,
      connector_name,
      ...set({ description }),
      config: requireReadable(config, `saved ${type}`, name),
    })),
    pipelines: sorted(pipelines).map(({ name, domain_id, schedule, timezone, enabled, config }) => ({
      name,
      ...set({ domain: domain_id === null ? null : domainNames.get(domain_id), schedule, timezone }),
      ...(!enabled && { enabled }),
      config: toNames(requireReadable(config, 'pipeline', name), connectionNames),
    })),
  }
}

/** Without what has its default. */
const set = (fields: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined))

/** By code points, then by type: the same everywhere. */
const sorted = <T extends { name: string }>(objects: readonly T[], key: keyof T = 'name'): T[] =>
  [...objects].sort((a, b) => compareTexts(`${String(a[key])}\0${typeOf(a)}`, `${String(b[key])}\0${typeOf(b)}`))

const typeOf = (object: object): string => ('type' in object ? String(object.type) : '')
const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function requireReadable<T>(config: T | null, what: string, name: string): T {
  if (config !== null) return config
  throw new AppError(
    'conflict',
    `The config of the ${what} '${name}' cannot be decrypted: its key is not in ENCRYPTION_KEY. Save it again, or delete it`,
  )
}

interface Found extends SecretPlace {
  put(reference: string): void
  asJson: boolean
}

/** In place. */
function replaceSecrets(objects: Described, { connections }: Current): void {
  const found: Found[] = []
  const byName = new Map(connections.map((connection) => [`${connection.type} ${connection.name}`, connection]))
  for (const object of objects.connections) {
    const { name, type, connector_name, config } = object as {
      name: string
      type: string
      connector_name: string
      config: object
    }
    const { config: stored } = byName.get(`${type} ${name}`)!
    const shown =
      type === 'source'
        ? maskSourceConfig(connector_name, stored as SavedSourceConfig)
        : maskDestinationConfig(connector_name, stored as never)
    object.config = collect(config, shown, { identity: ['connection', type, name], words: [name] }, found)
  }
  for (const object of objects.pipelines) {
    const { name, config } = object as { name: string; config: object }
    object.config = collect(
      config,
      maskPipelineConfig(config as never),
      { identity: ['pipeline', name], words: [name] },
      found,
    )
  }
  const names = nameSecrets(found)
  for (const [index, { put, asJson }] of found.entries()) put(referTo(names[index]!, asJson))
}

/** Levels that say nothing in a name. */
const SILENT = new Set(['config', 'authentication', 'params'])

/** A copy in which texts are escaped. Places of secrets are added to `found`, and filled later. */
function collect(value: unknown, shown: unknown, place: SecretPlace, found: Found[]): unknown {
  if (isObject(value) && shown !== MASK) {
    const copy: Record<string, unknown> = {}
    for (const [name, inner] of Object.entries(value))
      fill(copy, name, { value: inner, shown: part(shown, name) }, place, found)
    return copy
  }
  if (Array.isArray(value) && shown !== MASK) {
    const copy: unknown[] = []
    for (const [index, inner] of value.entries())
      fill(copy, index, { value: inner, shown: part(shown, index) }, place, found)
    return copy
  }
  return typeof value === 'string' ? escapeText(value) : value
}

function fill(
  copy: unknown[] | Record<string, unknown>,
  name: string | number,
  { value, shown }: { value: unknown; shown: unknown },
  { identity, words }: SecretPlace,
  found: Found[],
): void {
  const holder = copy as Record<string | number, unknown>
  const here = {
    identity: [...identity, String(name)],
    words: SILENT.has(String(name)) ? words : [...words, String(name)],
  }
  const secret = shown === MASK || (typeof value === 'string' && hasSecretInAddress(value))
  holder[name] = secret ? null : collect(value, shown, here, found)
  if (!secret) return
  const put = (reference: string) => {
    holder[name] = reference
  }
  found.push({ ...here, asJson: typeof value !== 'string', put })
}

const part = (shown: unknown, name: string | number): unknown =>
  typeof shown === 'object' && shown !== null ? (shown as Record<string | number, unknown>)[name] : undefined
