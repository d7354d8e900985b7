/**
 * Compares what an organization has with what it should have. The name says which object is meant, so an object that gets
 * another name is a new one, and the old one is deleted if `prune` is given.
 */

import type { SavedSourceConfig } from '../connections/endpoint-shape.ts'
import type { SecretRules } from '../connections/kept-secrets.ts'
import { maskDestinationConfig, maskSourceConfig } from '../connections/masks.ts'
import type { PipelineConfig } from '../pipelines/config-shape.ts'
import { maskPipelineConfig } from '../pipelines/masks.ts'
import { sha256 } from '../sha256.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { visibleDomain } from '../tenancy/visibility.ts'
import { type ChangedField, findChanged } from './compare.ts'
import { describeSeveral, toNames } from './connection-names.ts'
import type { Current, CurrentConnection, CurrentPipeline, CurrentSource } from './current.ts'
import { type Problem, pointerTo } from './problems.ts'
import type { DesiredConnection, DesiredObjects, DesiredPipeline, DesiredSource, Kind } from './shape.ts'

export type Action = 'create' | 'change' | 'replace' | 'delete'

export interface Step {
  kind: Kind
  action: Action
  name: string
  fields: ChangedField[]
  /** What is there; null for a creation. */
  id: string | null
  /** Its place in the request; null for a deletion. */
  index: number | null
}

export interface Comparison {
  actor: Actor
  rules: SecretRules
  current: Current
  desired: DesiredObjects
  prune: boolean
  /** Only this domain and its pipelines are concerned; null: everything that the actor sees. */
  domain: string | null
}

export function findSteps(given: Comparison): { steps: Step[]; problems: Problem[] } {
  const { current, desired } = given
  const problems: Problem[] = []
  const names = new Map(current.domains.map(({ id, name }) => [id, name]))
  const inScope = (name: string | null) => given.domain === null || name === given.domain
  const whole = given.domain === null
  const steps = [
    ...match(given, problems, 'domains', {
      keyOf: ({ name }) => name.trim(),
      current: current.domains,
      desired: desired.domains,
      // A key of one domain does not manage the domain itself.
      pruned: () => whole && visibleDomain(given.actor) === null,
      compare: (now, { description = null, color = null }) =>
        plainFields({ description: now.description, color: now.color }, { description, color }),
    }),
    ...match(given, problems, 'sources', {
      keyOf: ({ source_name }) => source_name,
      current: current.sources,
      desired: desired.sources,
      pruned: () => whole,
      compare: compareSource,
      replaced: (now, { language = 'python' }) => now.language !== language,
    }),
    ...match(given, problems, 'connections', {
      keyOf: ({ type, name }) => `${type} ${name}`,
      current: current.connections,
      desired: desired.connections,
      pruned: () => whole,
      compare: (now, wanted) => compareConnection(given, now, wanted),
      replaced: (now, wanted) => now.connector_name !== wanted.connector_name,
    }),
    ...match(given, problems, 'pipelines', {
      keyOf: ({ name }) => name,
      current: current.pipelines,
      desired: desired.pipelines,
      pruned: ({ domain_id }) => inScope(domain_id === null ? null : (names.get(domain_id) ?? null)),
      compare: (now, wanted) => comparePipeline(given, names, now, wanted),
    }),
  ]
  desired.pipelines.forEach((pipeline, index) => {
    if (pipeline !== null && !inScope(pipeline.domain?.trim() ?? null))
      problems.push({
        pointer: pointerTo('objects', 'pipelines', index, 'domain'),
        message: `only pipelines of the domain '${given.domain}' are changed here`,
      })
  })
  return { steps, problems }
}

interface Matching<Now, Wanted> {
  keyOf(object: Now | Wanted): string
  current: readonly Now[]
  /** Null: not well-formed, and reported. */
  desired: readonly (Wanted | null)[]
  pruned(object: Now): boolean
  compare(now: Now, wanted: Wanted): ChangedField[]
  replaced?(now: Now, wanted: Wanted): boolean
}

interface Named {
  name: string
  source_name?: string | null
}

const nameOf = (kind: Kind, object: Named): string => (kind === 'sources' ? object.source_name! : object.name)

function match<Now extends { id: string } & Named, Wanted extends Named>(
  { prune }: Comparison,
  problems: Problem[],
  kind: Kind,
  { keyOf, current, desired, pruned, compare, replaced = () => false }: Matching<Now, Wanted>,
): Step[] {
  const existing = Map.groupBy(current, keyOf)
  const seen = new Map<string, number>()
  const steps: Step[] = []
  for (const [index, wanted] of desired.entries()) {
    if (wanted === null) continue
    const key = keyOf(wanted)
    const name = nameOf(kind, wanted)
    const at = pointerTo('objects', kind, index, kind === 'sources' ? 'source_name' : 'name')
    if (seen.has(key)) problems.push({ pointer: at, message: describeSeveral(`${kind} here`, 2, name) })
    else seen.set(key, index)
    const found = existing.get(key) ?? []
    if (found.length > 1)
      problems.push({ pointer: at, message: describeSeveral(`${kind} of the organization`, found.length, name) })
    const [now] = found
    const step = { kind, name, index, id: now?.id ?? null }
    if (!now) steps.push({ ...step, action: 'create', fields: [] })
    else {
      const fields = compare(now, wanted)
      if (fields.length > 0) steps.push({ ...step, action: replaced(now, wanted) ? 'replace' : 'change', fields })
    }
  }
  if (prune)
    for (const now of current)
      if (!seen.has(keyOf(now)) && pruned(now))
        steps.push({ kind, action: 'delete', name: nameOf(kind, now), id: now.id, index: null, fields: [] })
  return steps.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

/** Fields without secrets. */
const plainFields = (before: Record<string, unknown>, after: Record<string, unknown>): ChangedField[] =>
  Object.keys(after).flatMap((name) =>
    findChanged(name, { value: before[name], shown: before[name] }, { value: after[name], shown: after[name] }, true),
  )

function compareSource(now: CurrentSource, wanted: DesiredSource): ChangedField[] {
  const { name, description = null, language = 'python', code } = wanted
  const fields = plainFields(
    { name: now.name, description: now.description, language: now.language },
    { name, description, language },
  )
  // A review shows the code itself.
  const changed = now.code_sha256 !== sha256(code).toString('hex') || now.language !== language
  return changed ? [...fields, { path: 'code', before: null, after: null, secret: false }] : fields
}

function compareConnection(
  { actor, rules }: Comparison,
  now: CurrentConnection,
  { connector_name, description = null, config = {} }: DesiredConnection,
): ChangedField[] {
  const mask = (name: string, value: object) =>
    now.type === 'source'
      ? maskSourceConfig(name, value as SavedSourceConfig)
      : maskDestinationConfig(name, value as never)
  const stored = now.config ?? {}
  return [
    ...plainFields(
      { connector_name: now.connector_name, description: now.description },
      { connector_name, description },
    ),
    ...findChanged(
      'config',
      { value: stored, shown: tryMask(() => mask(now.connector_name, stored)) },
      { value: config, shown: tryMask(() => mask(connector_name, config)) },
      tellsSecrets(rules, can(actor, 'connectors:write')),
    ),
  ]
}

function comparePipeline(
  { actor, rules, current }: Comparison,
  domains: ReadonlyMap<string, string>,
  now: CurrentPipeline,
  wanted: DesiredPipeline,
): ChangedField[] {
  const { domain = null, schedule = null, timezone = null, enabled = true, config } = wanted
  const stored = toNames(now.config ?? {}, current.connectionNames)
  const mask = (value: object) => maskPipelineConfig(value as PipelineConfig)
  const before = {
    domain: now.domain_id === null ? null : (domains.get(now.domain_id) ?? null),
    schedule: now.schedule,
    timezone: now.timezone,
    enabled: now.enabled,
  }
  return [
    ...plainFields(before, { domain: domain?.trim() ?? null, schedule: schedule?.trim() || null, timezone, enabled }),
    ...findChanged(
      'config',
      { value: stored, shown: tryMask(() => mask(stored)) },
      { value: config, shown: tryMask(() => mask(config)) },
      tellsSecrets(rules, can(actor, 'pipelines:write', now.domain_id)),
    ),
  ]
}

/** Whether the caller may learn that a secret is the stored one: by the same rule by which it may read it. */
const tellsSecrets = (rules: SecretRules, mayWrite: boolean): boolean => rules.SECRETS === 'readable' && mayWrite

/** What has not the shape of a config is refused later; until then all of it may be a secret. */
function tryMask(mask: () => unknown): unknown {
  try {
    return mask()
  } catch {
    return '********'
  }
}
