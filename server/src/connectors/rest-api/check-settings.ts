/**
 * What the schema cannot say. Throws a ConnectorError with the path of the setting. This runs in the API and in the worker,
 * so its cost is linear in the settings, and nothing of the defaults is looked at more often than once where all resources
 * share it.
 */
import { compileAuthentication } from './authentication.ts'
import { fault } from './fault.ts'
import { compileIncremental } from './incremental.ts'
import { parsePath, parseValuePath } from './json-path.ts'
import { compilePaginator } from './paginators.ts'
import { listRequired, standsForNothing } from './placeholders.ts'
import { placeholdersOf, type Resource, readResources } from './resources.ts'
import { compileActions } from './response-actions.ts'
import type { EndpointSettings, ResourceSettings, RestApiSettings } from './settings.ts'
import { compileSteps } from './steps.ts'

/** What was checked already, by its place in a resource. */
type Checked = Map<string, Set<unknown>>

export function checkSettings(settings: RestApiSettings): Map<string, Resource> {
  checkBaseUrl(settings.client.base_url)
  compileAuthentication(settings.client.auth, 'client.auth')
  compilePaginator(settings.client.paginator, 'client.paginator')
  const resources = readResources(settings)
  const checked: Checked = new Map()
  const { resource_defaults: defaults = {} } = settings
  checkParts(defaults, asObject(defaults.endpoint), 'resource_defaults', checked)
  for (const resource of resources.values()) checkResource(resource, checked)
  if (![...resources.values()].some(isSelected))
    throw fault('resources', 'none of them is selected, so there is no stream')
  return resources
}

export const isSelected = ({ settings }: Resource): boolean => settings.selected !== false

function checkBaseUrl(text: string): void {
  const url = URL.parse(text)
  if (!url) throw fault('client.base_url', 'is not a URL')
  if (url.username !== '' || url.password !== '')
    throw fault('client.base_url', 'must not hold a user name or password; use client.auth')
}

const asObject = (endpoint: string | EndpointSettings | undefined): EndpointSettings =>
  typeof endpoint === 'object' ? endpoint : {}

/** Parts that a resource has of its own or from the defaults, but never from both. */
function checkParts(
  { processing_steps }: Omit<ResourceSettings, 'name'>,
  { paginator, data_selector, response_actions, data }: EndpointSettings,
  at: string,
  checked: Checked,
): void {
  const check = <T>(value: T | null | undefined, place: string, compile: (value: T, at: string) => unknown): void => {
    if (value !== undefined && value !== null && isNew(value, place, checked)) compile(value, `${at}.${place}`)
  }
  check(paginator, 'endpoint.paginator', compilePaginator)
  check(data_selector, 'endpoint.data_selector', parsePath)
  check(response_actions, 'endpoint.response_actions', compileActions)
  check(processing_steps, 'processing_steps', compileSteps)
  check(data, 'endpoint.data', checkData)
}

function isNew(value: unknown, place: string, checked: Checked): boolean {
  const known = checked.get(place) ?? new Set()
  checked.set(place, known)
  if (known.has(value)) return false
  known.add(value)
  return true
}

function checkData(data: unknown, at: string): void {
  if (typeof data !== 'string' && (typeof data !== 'object' || Array.isArray(data)))
    throw fault(at, 'must be a text, or an object that is sent as a form')
}

function checkResource(resource: Resource, checked: Checked): void {
  const { settings, endpoint, at, incremental, incrementalAt, resolved } = resource
  checkParts(settings, endpoint, at, checked)
  if (incremental !== null && isNew(incremental, 'incremental', checked))
    compileIncremental(incremental, incrementalAt, 0)
  for (const [name, { field }] of resolved)
    if (isNew(field, 'field', checked)) parseValuePath(field, `${at}.endpoint.params.${name}.field`)
  for (const name of resource.placeholders)
    if (name.startsWith('resources.')) {
      const field = name.split('.').slice(2).join('.')
      if (isNew(field, 'field', checked)) parseValuePath(field, `${at}.endpoint`)
    }
  requireKnown(resource, endpoint.path, 'path')
  requireKnown(resource, resource.queryParams, 'params')
  requireKnown(resource, endpoint.headers, 'headers')
}

function requireKnown(resource: Resource, value: unknown, place: string): void {
  const find = placeholdersOf(resource)
  for (const name of listRequired(value))
    if (name === '' || find(name) === null) throw standsForNothing(name, `${resource.at}.endpoint.${place}`)
}
