/**
 * Applies a connector's settings schema to a config: defaults, faults and overrides (secrets: secrets.ts). Pure
 * functions over the JSON Schema keywords that settings use. Faults are complete sentences that start with the path,
 * because they are shown to the person who wrote the config.
 */

import { nearest } from '../../nearest.ts'
import type { TObject, TSchema } from '../../schema.ts'

/** The JSON Schema keywords that this file understands. */
export interface Node {
  type?: string
  properties?: Record<string, Node>
  required?: string[]
  additionalProperties?: boolean | Node
  items?: Node
  anyOf?: Node[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  pattern?: string
  description?: string
  secret?: boolean
  override?: boolean
  identity?: boolean
}
export type Fields = Record<string, unknown>

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A copy of the config with the defaults of absent settings filled in, at every depth. */
export function applyDefaults<T extends TObject>(schema: T, config: unknown): Record<string, unknown> {
  return fill(schema as Node, structuredClone(config ?? {})) as Fields
}

function fill(node: Node, value: unknown): unknown {
  if (value === undefined) return node.default === undefined ? undefined : structuredClone(node.default)
  if (isObject(value) && node.properties) {
    for (const [name, child] of Object.entries(node.properties)) {
      const filled = fill(child, value[name])
      if (filled !== undefined) value[name] = filled
    }
  }
  return value
}

/** Everything wrong with a config as it was given (defaults not needed), each as one sentence with its path. */
export function findSettingsFaults(schema: TSchema, config: unknown, path: string): string[] {
  const faults: string[] = []
  inspect(schema as Node, config, path, faults)
  return faults
}

function inspect(node: Node, value: unknown, path: string, faults: string[]): void {
  const choices = choicesOf(node)
  if (choices) {
    if (!choices.includes(value))
      faults.push(`${path}: ${quote(value)} is not allowed; use ${list(choices)}${guess(value, choices)}`)
  } else if (node.anyOf) {
    inspectUnion(node, value, path, faults)
  } else if (node.type === 'object') {
    inspectObject(node, value, path, faults)
  } else if (node.type === 'array') {
    inspectArray(node, value, path, faults)
  } else {
    const fault = findScalarFault(node, value)
    if (fault) faults.push(`${path}: ${fault}`)
  }
}

function inspectUnion(node: Node, value: unknown, path: string, faults: string[]): void {
  const members = node.anyOf ?? []
  let closest: string[] | null = null
  for (const member of members) {
    const own: string[] = []
    inspect(member, value, path, own)
    if (own.length === 0) return
    // The faults of the member whose type matches say more than "must be an integer or an object".
    if (member.type === kindOf(value) || (member.type === 'integer' && typeof value === 'number')) closest ??= own
  }
  if (closest) faults.push(...closest)
  else faults.push(`${path}: must be ${members.map(describeKind).join(' or ')}, not ${show(value)}${hint(node)}`)
}

/** Comparing names takes time, and somebody may send a hundred thousand. */
const MOST_HINTS = 100

function inspectObject(node: Node, value: unknown, path: string, faults: string[]): void {
  if (!isObject(value)) {
    faults.push(`${path}: must be an object, not ${show(value)}`)
    return
  }
  const known = node.properties ?? {}
  for (const [name, child] of Object.entries(value)) {
    const field = `${path}.${name}`
    if (Object.hasOwn(known, name)) {
      if (child !== undefined) inspect(known[name]!, child, field, faults)
    } else if (isObject(node.additionalProperties)) {
      inspect(node.additionalProperties as Node, child, field, faults)
    } else if (node.additionalProperties !== true) {
      faults.push(`${field}: unknown field${faults.length < MOST_HINTS ? hintAtKnown(name, Object.keys(known)) : ''}`)
    }
  }
  for (const name of node.required ?? []) {
    if (value[name] !== undefined || known[name]?.default !== undefined) continue
    faults.push(`${path}.${name}: is required${hint(known[name] ?? {})}`)
  }
}

function inspectArray(node: Node, value: unknown, path: string, faults: string[]): void {
  if (!Array.isArray(value)) {
    faults.push(`${path}: must be an array, not ${show(value)}`)
    return
  }
  if (node.minItems !== undefined && value.length < node.minItems)
    faults.push(`${path}: must have at least ${node.minItems} items`)
  if (node.maxItems !== undefined && value.length > node.maxItems)
    faults.push(`${path}: must have at most ${node.maxItems} items`)
  for (const [index, item] of value.entries()) if (node.items) inspect(node.items, item, `${path}[${index}]`, faults)
}

function findScalarFault(node: Node, value: unknown): string | null {
  const wanted = describeKind(node)
  if (node.type === 'null') return value === null ? null : `must be null, not ${show(value)}`
  if (node.type === 'boolean') return typeof value === 'boolean' ? null : `must be ${wanted}, not ${show(value)}`
  if (node.type === 'string') {
    if (typeof value !== 'string') return `must be ${wanted}, not ${show(value)}`
    if (node.minLength !== undefined && value.length < node.minLength) {
      return value === '' ? 'must not be empty' : `must have at least ${node.minLength} characters`
    }
    if (node.maxLength !== undefined && value.length > node.maxLength)
      return `must have at most ${node.maxLength} characters`
    // The value is not repeated: it may be a secret.
    if (node.pattern && !new RegExp(node.pattern, 'u').test(value)) return `has the wrong format${hint(node)}`
    return null
  }
  if (node.type === 'integer' || node.type === 'number') {
    if (typeof value !== 'number' || !Number.isFinite(value)) return `must be ${wanted}, not ${show(value)}`
    if (node.type === 'integer' && !Number.isSafeInteger(value)) return `must be ${wanted}, not ${value}`
    if (node.minimum !== undefined && value < node.minimum) return `must be ${node.minimum} or more`
    if (node.exclusiveMinimum !== undefined && value <= node.exclusiveMinimum)
      return `must be more than ${node.exclusiveMinimum}`
    if (node.maximum !== undefined && value > node.maximum) return `must be ${node.maximum} or less`
  }
  return null
}

/** The literal values that a node allows, if it is a choice among literals. */
function choicesOf(node: Node): unknown[] | null {
  if (node.enum) return node.enum
  if (node.const !== undefined) return [node.const]
  if (node.anyOf?.every((member) => member.const !== undefined)) return node.anyOf.map((member) => member.const)
  return null
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function describeKind(node: Node): string {
  const names: Record<string, string> = {
    string: 'a string',
    integer: 'an integer',
    number: 'a number',
    boolean: 'true or false',
    object: 'an object',
    array: 'an array',
    null: 'null',
  }
  const choices = choicesOf(node)
  return choices ? list(choices) : (names[node.type ?? ''] ?? 'something else')
}

/** The type of a wrong value; the value itself only if it is short and not text, because text may be a secret. */
function show(value: unknown): string {
  if (value === undefined) return 'missing'
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return String(value)
  if (typeof value === 'string') return 'a string'
  return Array.isArray(value) ? 'an array' : 'an object'
}

/** Only used if the schema lists the allowed values: such a field holds no secret. */
function quote(value: unknown): string {
  return typeof value === 'string' ? `'${value.slice(0, 60)}'` : show(value)
}

function list(choices: readonly unknown[]): string {
  const shown = choices.map((choice) => (typeof choice === 'string' ? `'${choice}'` : String(choice)))
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} or ${shown.at(-1)}`
}

function hint(node: Node): string {
  return node.description ? `: ${node.description.replace(/\.$/, '')}` : ''
}

function guess(value: unknown, known: readonly unknown[]): string {
  if (typeof value !== 'string') return ''
  const found = nearest(value.slice(0, 100), known.filter((name) => typeof name === 'string') as string[])
  return found ? `; did you mean '${found}'?` : ''
}

/** What follows "unknown field": the name that was probably meant, or all known names. */
export function hintAtKnown(name: string, known: readonly string[]): string {
  return guess(name, known) || listKnown(known)
}

function listKnown(names: readonly string[]): string {
  return names.length === 0 ? '; there are none here' : `; the known fields are ${names.join(', ')}`
}

/** What is wrong with settings that override a saved connector: only those marked as overridable may be set. */
export function findOverrideFaults(schema: TSchema, override: unknown, path: string): string[] {
  if (!isObject(override)) return [`${path}: must be an object, not ${show(override)}`]
  const known = (schema as Node).properties ?? {}
  const open = Object.keys(known).filter((name) => known[name]!.override && !known[name]!.secret)
  return Object.keys(override).flatMap((name, index) => {
    if (open.includes(name)) {
      const faults: string[] = []
      inspect(known[name]!, override[name], `${path}.${name}`, faults)
      return faults
    }
    if (!Object.hasOwn(known, name))
      return [
        `${path}.${name}: unknown field${(index < MOST_HINTS && guess(name, open)) || listKnown(Object.keys(known))}`,
      ]
    const allowed = open.length === 0 ? 'nothing can be' : `only ${list(open)} can be`
    return [`${path}.${name}: is set by the saved connector; ${allowed} overridden in the pipeline`]
  })
}
