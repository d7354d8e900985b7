/** Paths of which the parts are templates over the settings. */
import { type Component, given } from '../component.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { type Site, settingText } from './templates.ts'

export function compilePath(owner: Component, field: string, environment: Environment): string[] {
  const path = given(owner, field)
  const parts = path === undefined ? [] : Array.isArray(path) ? path : [path]
  const site: Site = { environment, owner, known: 'config' }
  return parts.map((part) => {
    if (typeof part !== 'string' && typeof part !== 'number')
      throw new Unsupported(`${owner.type}.${field} is not a path`)
    return settingText(String(part), site)
  })
}
