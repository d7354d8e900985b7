/** What of the settings says which data a stream reads: the requests of its resource and of its parents, not how they are paged. */

import { trimSlashes } from '../http/trim-slashes.ts'
import { checkSettings } from './check-settings.ts'
import type { Resource } from './resources.ts'
import type { RestApiSettings } from './settings.ts'

/** Throws where the settings cannot be used. */
export function canonicalRestApi(config: RestApiSettings, stream: string): Record<string, unknown> {
  const resources = resourcesOf(config)
  const chain: Resource[] = []
  for (let resource = resources.get(stream); resource; resource = resources.get(resource.parent ?? ''))
    chain.push(resource)
  const { resource_defaults: _, ...rest } = config
  return {
    ...rest,
    client: { ...config.client, base_url: trimSlashes(new URL(config.client.base_url).href) },
    resources: (chain.length > 0 ? chain : [...resources.values()]).map(identify),
  }
}

type Answer = { resources: Map<string, Resource> } | { error: unknown }
const known = new WeakMap<RestApiSettings, Answer>()

/** Once for the same settings, because they may be asked about for hundreds of streams. */
function resourcesOf(config: RestApiSettings): Map<string, Resource> {
  const answer = known.get(config) ?? check(config)
  known.set(config, answer)
  if ('error' in answer) throw answer.error
  return answer.resources
}

function check(config: RestApiSettings): Answer {
  try {
    return { resources: checkSettings(config) }
  } catch (error) {
    return { error }
  }
}

function identify({ name, endpoint, parent, incremental }: Resource) {
  const { path, method = 'GET', params, json, data, data_selector } = endpoint
  return {
    name,
    path,
    method: method.toUpperCase(),
    params,
    json,
    data,
    data_selector,
    parent,
    cursor: incremental?.cursor_path,
  }
}
