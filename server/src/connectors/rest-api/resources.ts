/** Resources with their defaults applied, their parents found, and their parameters sorted by what they are. */
import type { Json } from '../../json/json.ts'
import { isFields } from '../http/paths.ts'
import { findSettingsFaults } from '../settings/settings.ts'
import { fault } from './fault.ts'
import { type FindPlaceholder, listPlaceholders } from './placeholders.ts'
import { refuseSecrets, refuseSecretsInBody, refuseSecretsInForm } from './secret-names.ts'
import {
  type EndpointSettings,
  type IncrementalSettings,
  incrementalParameter,
  type ResourceSettings,
  type RestApiSettings,
} from './settings.ts'
import { weigh } from './walk.ts'

export interface Resource {
  name: string
  /** The path of the resource in the settings. */
  at: string
  settings: ResourceSettings
  endpoint: EndpointSettings & { path: string }
  /** Parameters of the address: without those that are bound to the path or to the cursor. */
  queryParams: Record<string, unknown>
  /** All placeholders of the request. */
  placeholders: readonly string[]
  /** Bound to the path by their name: `{post_id}` is a field of the parent. */
  resolved: Map<string, Reference>
  parent: string | null
  incremental: IncrementalSettings | null
  incrementalAt: string
  primaryKey: string[]
  /** The path ends with a placeholder: the answer is one object. */
  single: boolean
}

interface Reference {
  resource: string
  field: string
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
/** What the defaults may weigh in all resources together, because each of them has a copy. */
const MOST_DEFAULTS = 2 * 1024 * 1024

/** Time and memory are linear in the settings and in what the defaults weigh in all resources: this also runs in the API. */
export function readResources({ resources, resource_defaults }: RestApiSettings): Map<string, Resource> {
  if (resource_defaults && weigh(resource_defaults) * resources.length > MOST_DEFAULTS)
    throw fault(
      'resource_defaults',
      `are too large for ${resources.length} resources: together their copies may have 2 MB; give large values to the resources that need them, or use several sources`,
    )
  const defaults: Defaults = {
    settings: resource_defaults,
    endpoint: asEndpoint(resource_defaults?.endpoint),
    sorted: once(sortParams),
    placeholders: once(listPlaceholders),
  }
  refuseSecretsOf(defaults.endpoint, 'resource_defaults.endpoint')
  const found = new Map<string, Resource>()
  for (const [index, given] of resources.entries()) {
    const at = `resources[${index}]`
    const resource = readResource(typeof given === 'string' ? { name: given } : given, defaults, at)
    if (found.has(resource.name)) throw fault(`${at}.name`, `there are two resources with the name ${resource.name}`)
    found.set(resource.name, resource)
  }
  const checked = new Set<string>()
  for (const resource of found.values()) checkParent(resource, found, checked)
  return found
}

/** The defaults, and what was found out about values that several resources share. */
interface Defaults {
  settings: RestApiSettings['resource_defaults']
  endpoint: EndpointSettings
  sorted: typeof sortParams
  placeholders: typeof listPlaceholders
}

/** The same answer for the same object, at whatever place it was first. */
function once<T, Rest extends unknown[], Answer>(ask: (value: T, ...rest: Rest) => Answer) {
  const answers = new Map<T, Answer>()
  return (value: T, ...rest: Rest): Answer => {
    if (!answers.has(value)) answers.set(value, ask(value, ...rest))
    return answers.get(value)!
  }
}

function readResource(given: ResourceSettings, defaults: Defaults, at: string): Resource {
  const own = asEndpoint(given.endpoint)
  const endpoint = mergeEndpoints(defaults.endpoint, own, given.name)
  const settings: ResourceSettings = { ...defaults.settings, ...given, endpoint }
  const where = `${at}.endpoint`
  checkEndpoint(endpoint, where)
  refuseSecretsOf(own, where)
  const { params, resolved, bound } = defaults.sorted(endpoint.params ?? NONE, `${where}.params`)
  if (bound !== null && endpoint.incremental)
    throw fault(`${where}.incremental`, `the parameter ${bound.start_param} is incremental already`)
  const inPath = new Set([...endpoint.path.matchAll(/\{([^{}]+)\}/g)].map(([, name]) => name!))
  const texts = [params, endpoint.json, endpoint.data, endpoint.headers].filter((value) => value !== undefined)
  const placeholders = [endpoint.path, ...texts].flatMap((value) => [...defaults.placeholders(value)])
  const parent = findParent(placeholders, resolved, inPath, where)
  if (settings.include_from_parent && parent === null)
    throw fault(
      `${at}.include_from_parent`,
      'needs a parent: a parameter of type resolve, or {resources.<parent>.<field>}',
    )
  return {
    name: given.name,
    at,
    settings,
    endpoint,
    queryParams:
      inPath.size === 0 ? params : Object.fromEntries(Object.entries(params).filter(([name]) => !inPath.has(name))),
    placeholders,
    resolved,
    parent,
    incremental: bound ?? endpoint.incremental ?? null,
    incrementalAt: bound === null ? `${where}.incremental` : `${where}.params.${bound.start_param}`,
    primaryKey: asList(settings.primary_key),
    single: endsWithPlaceholder(endpoint.path),
  }
}

const NONE: Readonly<Record<string, unknown>> = {}

function checkEndpoint({ method, json, data }: EndpointSettings, at: string): void {
  if (method !== undefined && !METHODS.includes(method.toUpperCase()))
    throw fault(`${at}.method`, `must be one of ${METHODS.join(', ')}`)
  if (json !== undefined && data !== undefined) throw fault(`${at}.data`, 'cannot be given together with json')
}

function refuseSecretsOf({ path = '', headers, params, json, data }: EndpointSettings, at: string): void {
  const query = path.indexOf('?')
  if (query >= 0) refuseSecretsInForm(path.slice(query + 1), `${at}.path`)
  refuseSecrets(headers, `${at}.headers`)
  refuseSecrets(params, `${at}.params`)
  refuseSecretsInBody(json, `${at}.json`)
  refuseSecretsInBody(data, `${at}.data`)
}

function endsWithPlaceholder(path: string): boolean {
  const last = [...path.matchAll(/\{[^{}]+\}/g)].at(-1)
  return last !== undefined && !path.includes('/', last.index + last[0].length)
}

/** What a placeholder in the request of a resource stands for. */
export function placeholdersOf({ resolved, endpoint, incremental }: Resource): FindPlaceholder {
  return (name) => {
    if (name.startsWith('resources.') || resolved.has(name)) return ({ partition }) => partition[name] ?? null
    if (name.startsWith('incremental.') && incremental !== null) {
      const field = name.slice('incremental.'.length)
      if (!['start_value', 'last_value', 'initial_value', 'end_value'].includes(field)) return null
      return ({ interval }) => interval[field] ?? null
    }
    const { params = NONE } = endpoint
    const value = Object.hasOwn(params, name) ? params[name] : undefined
    return value === undefined || isFields(value) ? null : () => value as Json
  }
}

const asEndpoint = (given: string | EndpointSettings | undefined): EndpointSettings =>
  typeof given === 'string' ? { path: given } : (given ?? {})

const asList = (value: string | string[] | undefined): string[] =>
  value === undefined ? [] : typeof value === 'string' ? [value] : value

/** As dlt does: params and json are merged, everything else is replaced. */
function mergeEndpoints(defaults: EndpointSettings, own: EndpointSettings, name: string) {
  const merged = { ...defaults, ...own, path: own.path ?? name }
  if (defaults.params && own.params) merged.params = { ...defaults.params, ...own.params }
  if (isFields(defaults.json) && isFields(own.json)) merged.json = { ...defaults.json, ...own.json }
  return merged
}

function sortParams(given: Readonly<Record<string, unknown>>, at: string) {
  const params: Record<string, unknown> = {}
  const resolved = new Map<string, Reference>()
  let bound: IncrementalSettings | null = null
  for (const [name, value] of Object.entries(given)) {
    const place = `${at}.${name}`
    const type = isFields(value) ? value.type : undefined
    if (type === 'resolve') resolved.set(name, readReference(value, place))
    else if (type === 'incremental') {
      if (bound !== null) throw fault(place, 'only one parameter can be incremental')
      bound = readBound(value, name, place)
    } else if (isFields(value)) {
      throw fault(place, 'must be a value, or an object with the type resolve or incremental')
    } else params[name] = value
  }
  return { params, resolved, bound }
}

function readReference(value: unknown, at: string): Reference {
  const { resource, field } = value as Partial<Reference>
  for (const name of Object.keys(value as object))
    if (!['type', 'resource', 'field'].includes(name))
      throw fault(`${at}.${name}`, 'unknown field; resolve has resource and field')
  if (typeof resource !== 'string' || resource === '')
    throw fault(`${at}.resource`, 'is required: the name of the parent')
  if (typeof field !== 'string' || field === '') throw fault(`${at}.field`, 'is required: the field of the parent')
  return { resource, field }
}

function readBound(value: unknown, name: string, at: string): IncrementalSettings {
  const { type: _, ...rest } = value as Record<string, unknown>
  const [first] = findSettingsFaults(incrementalParameter, rest, at)
  if (first !== undefined) throw fault(first.slice(0, first.indexOf(':')), first.slice(first.indexOf(':') + 2))
  return { ...(rest as IncrementalSettings), start_param: name }
}

function findParent(
  placeholders: readonly string[],
  resolved: Map<string, Reference>,
  inPath: ReadonlySet<string>,
  at: string,
): string | null {
  const parents = new Set<string>()
  for (const [name, { resource }] of resolved) {
    if (!inPath.has(name))
      throw fault(
        `${at}.params.${name}`,
        `is not in the path; write {${name}} there, or use {resources.<parent>.<field>} in the parameter`,
      )
    parents.add(resource)
  }
  for (const name of placeholders) {
    if (!name.startsWith('resources.')) continue
    const [, parent, ...field] = name.split('.')
    if (!parent || field.length === 0) throw fault(at, `{${name}} must have the form {resources.<parent>.<field>}`)
    parents.add(parent)
  }
  if (parents.size > 1)
    throw fault(at, `names several parents (${[...parents].slice(0, 10).join(', ')}); a resource can have one`)
  return [...parents][0] ?? null
}

/** `checked` are resources whose ancestors are all there. */
function checkParent(resource: Resource, all: Map<string, Resource>, checked: Set<string>): void {
  const seen = new Set([resource.name])
  for (let { parent } = resource; parent !== null && !checked.has(parent); ) {
    const next = all.get(parent)
    if (!next) throw fault(`${resource.at}.endpoint`, `refers to the resource ${parent}, which there is not`)
    if (seen.has(parent))
      throw fault(`${resource.at}.endpoint`, `${resource.name} and ${parent} are parents of each other`)
    seen.add(parent)
    parent = next.parent
  }
  for (const name of seen) checked.add(name)
}
