/** Values of a plan from the templates of a component. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import type { Fields, Value as PlanValue, Scope } from '../../http/scope.ts'
import { type Dict, isDict, parametersOf } from '../component.ts'
import { Unsupported } from '../problems.ts'
import { lowerHeaderNames } from '../template/header-names.ts'
import { isTemplate, literal, type Template, template } from '../template/template.ts'
import { isFloat, isNumber, isRaw, numberOf, TemplateError, toText, Undefined, type Value } from '../template/values.ts'
import type { Environment } from './environment.ts'
import { type Known, NAMES, variables } from './variables.ts'

/** A place where templates stand: its owner gives the parameters, and `known` which variables exist. */
export interface Site {
  environment: Environment
  owner: Dict
  known: Known
  /** Names that exist here beyond those of `known`. */
  also?: ReadonlySet<string>
}

export type More = { [name: string]: Value }

/** Renders a template; `more` are further variables. Null: it uses something undefined. */
export type Render = (scope: Scope | null, more?: More) => string | null

export function compile(source: string, site: Site): Render {
  const compiled = parsed(source)
  const names: readonly string[] = NAMES[site.known]
  for (const name of compiled.names) {
    if (!names.includes(name) && !site.also?.has(name)) {
      throw new Unsupported(`the template ${quoted(source)} uses ${name}, which does not exist there`)
    }
  }
  const { config } = site.environment
  const parameters = parametersOf(site.owner) as Fields
  return (scope, more) => {
    try {
      return compiled.render(variables(scope, { config, parameters, ...(more !== undefined && { more }) }))
    } catch (error) {
      throw failure(source, error)
    }
  }
}

function parsed(source: string): Template {
  try {
    return template(lowerHeaderNames(source))
  } catch (error) {
    if (error instanceof TemplateError)
      throw new Unsupported(`the template ${quoted(source)} cannot be used: ${error.message}`)
    throw error
  }
}

function failure(source: string, error: unknown): unknown {
  if (!(error instanceof TemplateError)) return error
  return new ConnectorError('source', `the template ${quoted(source)} fails: ${error.message}`, { cause: error })
}

function quoted(source: string): string {
  const line = source.replace(/\s+/g, ' ').trim()
  return JSON.stringify(line.length > 80 ? `${line.slice(0, 77)}…` : line)
}

function undefinedUse(source: string): ConnectorError {
  return new ConnectorError('source', `the template ${quoted(source)} uses something that is undefined`)
}

export type Kinds = (value: Value) => boolean

/** The value of a template, typed as Airbyte types it. */
export function anyValue(source: string, site: Site, kinds?: Kinds): (scope: Scope | null, more?: More) => Json {
  if (!isTemplate(source)) {
    const fixed = toJson(literal(source, kinds))
    return () => fixed
  }
  const render = compile(source, site)
  return (scope, more) => {
    const text = render(scope, more)
    if (text === null) throw undefinedUse(source)
    return text === '' ? '' : toJson(literal(text, kinds))
  }
}

/** As `anyValue`, with null for what is undefined: a record may lack what others have. */
export function presentValue(source: string, site: Site, kinds?: Kinds): (scope: Scope | null) => Json {
  if (!isTemplate(source)) return anyValue(source, site, kinds)
  const render = compile(source, site)
  return (scope) => {
    const text = render(scope)
    return text === null || text === '' ? text : toJson(literal(text, kinds))
  }
}

/** As `anyValue`, with null for what is undefined or empty. */
export function optionalValue(source: string, site: Site, kinds?: Kinds): PlanValue<Json> {
  if (!isTemplate(source)) {
    const fixed = source === '' ? null : toJson(literal(source, kinds))
    return () => fixed
  }
  const render = compile(source, site)
  return (scope) => {
    const text = render(scope)
    return text === null || text === '' ? null : toJson(literal(text, kinds))
  }
}

export function textValue(source: string, site: Site): (scope: Scope | null, more?: More) => string {
  if (!isTemplate(source)) {
    // Text that is a quoted literal loses its quotes, as everywhere.
    const fixed = toText(literal(source))
    return () => fixed
  }
  const render = compile(source, site)
  return (scope, more) => {
    const text = render(scope, more)
    if (text === null) throw undefinedUse(source)
    return text === '' ? '' : toText(literal(text))
  }
}

/**
 * Text that depends on the settings only, evaluated at once. While a manifest is checked no settings exist: the text of the
 * template stands for its value.
 */
export function settingText(source: string, site: Site): string {
  const value = textValue(source, site)
  return site.environment.checking && isTemplate(source) ? source : value(null)
}

const FALSE_TEXTS = ['False', 'false', '{}', '[]', '()', '', '0', '0.0']

/** A condition: only a few values are false, and None is not among them. */
export function condition(source: Json, site: Site): (scope: Scope | null, more?: More) => boolean {
  if (typeof source === 'boolean') return () => source
  if (typeof source !== 'string') throw new Unsupported('a condition is neither text nor true or false')
  const render = compile(source, site)
  return (scope, more) => {
    const text = render(scope, more)
    if (text === null || text === '') return false
    return !isFalse(literal(text))
  }
}

function isFalse(value: Value): boolean {
  if (typeof value === 'string') return FALSE_TEXTS.includes(value)
  if (isNumber(value)) return numberOf(value) === 0
  if (Array.isArray(value)) return value.length === 0
  return isDict(value) && Object.keys(value).length === 0
}

/** The kinds that a query parameter or a form field may have: all others stay text. */
export const TEXT_OR_LIST: Kinds = (value) => typeof value === 'string' || Array.isArray(value)
const TEXT: Kinds = (value) => typeof value === 'string'

const VALUE_TYPES: Record<string, Kinds> = {
  string: TEXT,
  number: (value) => isFloat(value),
  integer: (value) => isNumber(value) && typeof value !== 'boolean' && !isFloat(value),
  boolean: (value) => typeof value === 'boolean',
}

export function kindsOf(owner: Dict): Kinds | undefined {
  const type = owner.value_type
  if (type === undefined || type === null) return undefined
  const kinds = typeof type === 'string' ? VALUE_TYPES[type] : undefined
  if (kinds === undefined) throw new Unsupported(`value_type ${JSON.stringify(type)} is unknown`)
  return kinds
}

/** A mapping of which keys and values are templates; what is None is left out. */
export function mapping(source: Dict, site: Site, kinds?: Kinds): PlanValue<Fields> {
  const entries = Object.entries(source).map(([key, value]) => {
    const read = typeof value === 'string' ? optionalValue(value, site, kinds) : () => value
    return [textValue(key, site), read] as const
  })
  return (scope) => {
    const made: Fields = {}
    for (const [key, read] of entries) {
      const value = read(scope)
      if (value !== null) made[key(scope)] = value
    }
    return made
  }
}

/** Any value in which all texts, at any depth, are templates. */
export function nested(source: Json, site: Site): PlanValue<Json> {
  if (typeof source === 'string') return optionalValue(source, site)
  if (Array.isArray(source)) {
    const items = source.map((item) => nested(item, site))
    return (scope) => items.map((item) => item(scope))
  }
  if (!isDict(source)) return () => source
  const entries = Object.entries(source).map(([key, value]) => [textValue(key, site), nested(value, site)] as const)
  return (scope) => {
    const made: Fields = {}
    for (const [key, read] of entries) {
      const value = read(scope)
      if (value !== null) made[key(scope)] = value
    }
    return made
  }
}

/** A template's value as JSON. Digits beyond a JavaScript number are kept. */
function toJson(value: Value): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number')
    return value
  if (value instanceof Undefined) return null
  if (isRaw(value)) return value as unknown as Json
  if (isNumber(value)) return numberOf(value)
  if (Array.isArray(value)) return Array.from(value, toJson)
  if (!isDict(value)) return toText(value)
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toJson(item as Value)]))
}

/** Scalars as Python writes them in a query, a header or a form. */
export function written(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, Array.isArray(value) ? value.map(asText) : asText(value)]),
  )
}

function asText(value: Json): string {
  return toText(value as Value)
}
