/** From settings to a plan. Throws a ConnectorError with the path of the setting where they cannot be used. */

import type { Json } from '../../json/json.ts'
import { ConnectorError } from '../contract.ts'
import type { Cursor } from '../http/cursor.ts'
import { isFields, lookUp } from '../http/paths.ts'
import type { ParentPlan, Plan, ReadPlan, StreamPlan } from '../http/plan.ts'
import type { RecordsPlan } from '../http/records-plan.ts'
import type { AuthenticationPlan, BodyPlan, RequestPlan } from '../http/request-plan.ts'
import type { Fields, Scope, Value } from '../http/scope.ts'
import { trimSlashes } from '../http/trim-slashes.ts'
import { compileAuthentication } from './authentication.ts'
import { checkSettings, isSelected } from './check-settings.ts'
import { detectRecords } from './detect-records.ts'
import { fault } from './fault.ts'
import { compileIncremental } from './incremental.ts'
import { parsePath, parseValuePath } from './json-path.ts'
import { compilePaginator } from './paginators.ts'
import {
  compileFields,
  compileJson,
  compileText,
  type FindPlaceholder,
  writePathPart,
  writePlain,
} from './placeholders.ts'
import { placeholdersOf, type Resource } from './resources.ts'
import { compileActions } from './response-actions.ts'
import type { RestApiSettings } from './settings.ts'
import { compileSteps } from './steps.ts'

interface Compiling {
  settings: RestApiSettings
  authentication: AuthenticationPlan
  lookbackSeconds: number
}

export interface RestApiPlan extends Plan {
  resources: ReadonlyMap<string, Resource>
}

export function compilePlan(settings: RestApiSettings, lookbackSeconds = 0): RestApiPlan {
  const resources = checkSettings(settings)
  const authentication = compileAuthentication(settings.client.auth, 'client.auth')
  const compiling: Compiling = { settings, authentication, lookbackSeconds }
  const all = new Map<string, StreamPlan>()
  for (const resource of resources.values()) all.set(resource.name, compileStream(resource, compiling, all))
  const streams = [...resources.values()].filter(isSelected).map(({ name }) => all.get(name)!)
  const { requests_at_once } = settings
  return {
    streams,
    budget: null,
    resources,
    ...(requests_at_once === undefined ? {} : { concurrency: requests_at_once }),
  }
}

/** Only a stream that is read is compiled, with its parents: a thousand of them would take much time and memory. */
function compileStream(resource: Resource, compiling: Compiling, all: ReadonlyMap<string, StreamPlan>): StreamPlan {
  const { name, primaryKey, parent } = resource
  let read: ReadPlan | undefined
  const choose = (): ReadPlan => {
    read ??= compileRead(resource, compiling, parent === null ? null : all.get(parent)!)
    return read
  }
  return { name, primaryKey, columns: null, choose }
}

function compileRead(resource: Resource, compiling: Compiling, parent: StreamPlan | null): ReadPlan {
  const { incremental, incrementalAt } = resource
  const cursor = incremental && compileIncremental(incremental, incrementalAt, compiling.lookbackSeconds)
  return {
    partitions: parent === null ? null : { kind: 'parents', parents: [compileParent(resource, parent)] },
    cursor,
    retrieval: {
      kind: 'pages',
      request: compileRequest(resource, compiling),
      paginator: paginatorOf(resource, compiling.settings),
    },
    records: compileRecords(resource, cursor),
    properties: null,
  }
}

function paginatorOf({ endpoint, at, single }: Resource, { client }: RestApiSettings) {
  if (endpoint.paginator !== undefined && endpoint.paginator !== null)
    return compilePaginator(endpoint.paginator, `${at}.endpoint.paginator`)
  return single ? null : compilePaginator(client.paginator, 'client.paginator')
}

/** The values of the parent's record that the request names, by placeholder, and those to add to the child's records. */
function compileParent(resource: Resource, stream: StreamPlan): ParentPlan {
  const { resolved, at, settings } = resource
  const wanted = new Map<string, string[]>()
  for (const [name, { field }] of resolved)
    wanted.set(name, parseValuePath(field, `${at}.endpoint.params.${name}.field`))
  for (const name of resource.placeholders)
    if (name.startsWith('resources.'))
      wanted.set(name, parseValuePath(name.split('.').slice(2).join('.'), `${at}.endpoint`))
  const included = (settings.include_from_parent ?? []).map((field) => [`_${stream.name}_${field}`, field] as const)
  return {
    stream,
    incremental: stream.choose(null).cursor !== null,
    inject: [],
    partition(record) {
      const partition: Fields = {}
      for (const [name, path] of wanted) partition[name] = require(record, path, stream.name, resource.name)
      const extra = included.map(([name, field]) => [name, require(record, [field], stream.name, resource.name)])
      return { partition, extra: Object.fromEntries(extra) }
    },
  }
}

function require(record: Fields, path: readonly string[], parent: string, child: string): Json {
  const value = lookUp(record, path)
  if (value !== undefined) return value
  const names = Object.keys(record).slice(0, 30).join(', ')
  throw new ConnectorError(
    'source',
    `${child} needs the field ${path.join('.')} of ${parent}, but a record has only ${names}.`,
  )
}

function compileRequest(resource: Resource, { settings, authentication }: Compiling): RequestPlan {
  const { endpoint, at } = resource
  const find = placeholdersOf(resource)
  const strict = (setting: string) => ({ find, at: `${at}.endpoint.${setting}`, strict: true })
  const path = compileText(endpoint.path, strict('path'), writePathPart)
  const base = settings.client.base_url
  const own = { ...settings.client.headers }
  const headers = compileFields((endpoint.headers ?? {}) as Fields, strict('headers'))
  return {
    method: (endpoint.method ?? 'GET').toUpperCase(),
    url: (scope) => joinUrl(base, path(scope)),
    params: compileFields(resource.queryParams as Fields, strict('params')),
    headers: (scope) => ({ ...own, ...headers(scope) }),
    body: compileBody(resource, find),
    authentication,
    errors: compileActions(endpoint.response_actions ?? [], `${at}.endpoint.response_actions`),
  }
}

/** A path of its own is a whole address. */
function joinUrl(base: string, path: string): string {
  if (/^https?:\/\//i.test(path)) return path
  return path === '' ? base : `${trimSlashes(base)}/${path.replace(/^\/+/, '')}`
}

function compileBody({ endpoint, at }: Resource, find: FindPlaceholder): BodyPlan | null {
  const options = (setting: string) => ({ find, at: `${at}.endpoint.${setting}`, strict: false })
  if (endpoint.json !== undefined) return { kind: 'json', value: compileJson(endpoint.json, options('json')) }
  if (endpoint.data === undefined) return null
  if (typeof endpoint.data === 'string')
    return { kind: 'text', value: compileText(endpoint.data, options('data'), writePlain) }
  if (isFields(endpoint.data)) return { kind: 'form', value: compileFields(endpoint.data, options('data')) }
  throw fault(`${at}.endpoint.data`, 'must be a text, or an object that is sent as a form')
}

function compileRecords(resource: Resource, cursor: Cursor | null): RecordsPlan {
  const { endpoint, settings, at, single, incremental } = resource
  const given = endpoint.data_selector ?? (single ? '$' : null)
  const path: readonly string[] | Value<readonly string[]> =
    given === null ? detectRecords() : parsePath(given, `${at}.endpoint.data_selector`)
  const excludes = cursor !== null && incremental?.on_cursor_value_missing === 'exclude'
  const isKnown = ({ record }: Scope): boolean => (lookUp(record, cursor!.field) ?? null) !== null
  return {
    decoder: { kind: 'json' },
    extract: { path, wrap: 'value' },
    filter: excludes ? isKnown : null,
    transforms: compileSteps(settings.processing_steps ?? [], `${at}.processing_steps`),
    add: settings.include_from_parent ? ({ extra }) => extra : null,
  }
}
