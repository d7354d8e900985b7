/** Components as they stand in a manifest: mappings with a `type`. Readers of their fields, which may hold anything. */
import type { Json } from '../../json/json.ts'
import { Unsupported } from './problems.ts'

export type Dict = { [key: string]: Json }

export interface Component extends Dict {
  type: string
}

export function isDict(value: unknown): value is Dict {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isComponent(value: unknown): value is Component {
  return isDict(value) && typeof value.type === 'string'
}

export function typeOf(value: Json | undefined): string {
  return isComponent(value) ? value.type : 'an untyped component'
}

/** A field that is absent or null is not given. */
export function given(component: Dict, field: string): Json | undefined {
  if (!Object.hasOwn(component, field)) return undefined
  return component[field] ?? undefined
}

export function component(owner: Dict, field: string): Component {
  const value = given(owner, field)
  if (!isComponent(value)) throw new Unsupported(`${typeOf(owner)} has no ${field}`)
  return value
}

export function optionalComponent(owner: Dict, field: string): Component | null {
  return given(owner, field) === undefined ? null : component(owner, field)
}

export function components(owner: Dict, field: string): Component[] {
  const value = given(owner, field)
  if (value === undefined) return []
  const list = Array.isArray(value) ? value : [value]
  if (!list.every(isComponent))
    throw new Unsupported(`${typeOf(owner)}.${field} holds something that is not a component`)
  return list
}

export function text(owner: Dict, field: string): string {
  const value = optionalText(owner, field)
  if (value === null) throw new Unsupported(`${typeOf(owner)} has no ${field}`)
  return value
}

/** Numbers and booleans are taken as their text, as YAML gives `1` where `"1"` was meant. */
export function optionalText(owner: Dict, field: string): string | null {
  const value = given(owner, field)
  if (value === undefined) return null
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value !== 'string') throw new Unsupported(`${typeOf(owner)}.${field} is not text`)
  return value
}

export function flag(owner: Dict, field: string): boolean {
  const value = given(owner, field)
  if (value === undefined || typeof value === 'boolean') return value ?? false
  throw new Unsupported(`${typeOf(owner)}.${field} is not true or false`)
}

export function wholeNumber(owner: Dict, field: string, fallback: number): number {
  const value = given(owner, field)
  if (value === undefined) return fallback
  if (typeof value === 'number' && Number.isInteger(value)) return value
  if (typeof value === 'string' && /^\d{1,9}$/.test(value)) return Number(value)
  throw new Unsupported(`${typeOf(owner)}.${field} is not a whole number`)
}

export function parametersOf(owner: Dict): Dict {
  const value = given(owner, '$parameters')
  return isDict(value) ? value : {}
}

/** Fields that exist in Airbyte but not here: a stream that gives one is refused instead of read differently. */
export function refuse(owner: Dict, fields: readonly string[]): void {
  const found = fields.find((field) => {
    const value = given(owner, field)
    return value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0)
  })
  if (found !== undefined) throw new Unsupported(`${typeOf(owner)}.${found} is not supported`)
}
