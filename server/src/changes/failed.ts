/** Objects of a request that have a problem: what refers to them is not reported for that too. */
import { isObject } from '../connectors/settings/settings.ts'
import type { Kind } from './shape.ts'

export type Failed = Set<string>

export const failedSource = (name: string): string => `source ${name}`
export const failedConnection = (type: string, name: string): string => `${type} connection ${name}`
export const failedDomain = (name: string): string => `domain ${name}`

/** The object may have any shape. */
export function markFailed(failed: Failed, kind: Kind, object: unknown): void {
  if (!isObject(object)) return
  const { name, source_name, type } = object
  if (kind === 'sources' && typeof source_name === 'string') failed.add(failedSource(source_name))
  if (typeof name !== 'string') return
  if (kind === 'domains') failed.add(failedDomain(name.trim()))
  if (kind === 'connections')
    for (const each of type === 'source' || type === 'destination' ? [type] : ['source', 'destination'])
      failed.add(failedConnection(each, name))
}
