/** `config_normalization_rules`: what happens to the settings before they are used. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import type { Fields } from '../../http/scope.ts'
import { type Component, components, type Dict, given, isComponent, isDict, optionalText } from '../component.ts'
import { deleteAt, setAt, valueAt, valuesAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import { schemaFault } from '../schema/validate.ts'
import type { Value } from '../template/values.ts'
import type { Environment } from './environment.ts'
import { anyValue, condition, kindsOf, mapping, type Site, textValue } from './templates.ts'

/** Changes the settings in place, or throws a ConnectorError that says what is wrong with them. */
type ConfigRule = (config: Fields) => void

/** The rules of a manifest; each is compiled for the settings it is applied to. */
export function applyConfigRules(spec: Component | null, environment: Environment): void {
  const rules = spec === null ? undefined : given(spec, 'config_normalization_rules')
  if (!isDict(rules)) return
  const migrations = components(asComponent(rules), 'config_migrations').flatMap((migration) =>
    components(migration, 'transformations'),
  )
  const transformations = components(asComponent(rules), 'transformations')
  for (const part of [...migrations, ...transformations]) {
    const rule = compileTransformation(part, environment)
    if (!environment.checking) rule(environment.config)
  }
  for (const validation of components(asComponent(rules), 'validations')) {
    const rule = compileValidation(validation, environment)
    if (!environment.checking) rule(environment.config)
  }
}

function asComponent(rules: Dict): Component {
  return { type: 'ConfigNormalizationRules', ...rules }
}

function compileTransformation(part: Component, environment: Environment): ConfigRule {
  const site: Site = { environment, owner: {}, known: 'added' }
  const source = given(part, 'condition')
  const when = source === undefined || source === '' ? null : condition(source, site)
  if (part.type === 'ConfigAddFields') {
    const fields = components(part, 'fields').map((field) => {
      const path = given(field, 'path')
      if (!Array.isArray(path) || path.length === 0) throw new Unsupported('AddedFieldDefinition.path is not a list')
      return { path: path.map(String), value: anyValue(optionalText(field, 'value') ?? '', site, kindsOf(field)) }
    })
    return (config) => {
      for (const { path, value } of fields) {
        const made = value(null)
        if (when === null || when(null, { value: made as Value, path })) setAt(config, path, made)
      }
    }
  }
  if (part.type === 'ConfigRemoveFields') {
    const pointers = given(part, 'field_pointers')
    if (!Array.isArray(pointers)) throw new Unsupported('ConfigRemoveFields.field_pointers is not a list')
    return (config) => {
      if (when !== null && !when(null)) return
      for (const pointer of pointers)
        deleteAt(config, Array.isArray(pointer) ? pointer.map(String) : [String(pointer)], null)
    }
  }
  if (part.type === 'ConfigRemapField') return compileRemap(part, site)
  throw new Unsupported(named(part))
}

function compileRemap(part: Component, site: Site): ConfigRule {
  const path = given(part, 'field_path')
  const map = given(part, 'map')
  if (!Array.isArray(path) || !isDict(map)) throw new Unsupported('ConfigRemapField has no field_path or map')
  const parts = path.map((step) => textValue(String(step), site))
  const values = mapping(map, site)
  return (config) => {
    const at = parts.map((step) => step(null))
    const value = valueAt(config, at)
    const replacements = values(NO_SCOPE)
    if (value === undefined || typeof value === 'object' || !Object.hasOwn(replacements, String(value))) return
    setAt(config, at, replacements[String(value)]!)
  }
}

/** Only the settings exist in these templates. */
const NO_SCOPE = null as never

function compileValidation(validation: Component, environment: Environment): ConfigRule {
  const strategy = given(validation, 'validation_strategy')
  if (!isComponent(strategy)) throw new Unsupported(`${validation.type} has no validation_strategy`)
  if (strategy.type !== 'ValidateAdheresToSchema') throw new Unsupported(named(strategy))
  const schema = given(strategy, 'base_schema')
  const parsed = typeof schema === 'string' ? parseJson(schema) : schema
  if (!isDict(parsed)) throw new Unsupported('ValidateAdheresToSchema.base_schema is not a schema')
  const check = (value: Json): void => {
    const fault = schemaFault(parsed, typeof value === 'string' ? parseJson(value) : value)
    if (fault !== null)
      throw new ConnectorError('config', `the settings do not fit what the manifest demands: ${fault}`)
  }
  const site: Site = { environment, owner: {}, known: 'config' }
  if (validation.type === 'PredicateValidator') {
    const value = anyValue(optionalText(validation, 'value') ?? '', site)
    return () => check(value(null))
  }
  if (validation.type !== 'DpathValidator') throw new Unsupported(named(validation))
  const path = given(validation, 'field_path')
  if (!Array.isArray(path)) throw new Unsupported('DpathValidator.field_path is not a list')
  const parts = path.map((step) => textValue(String(step), site))
  return (config) => {
    for (const value of valuesAt(
      config,
      parts.map((step) => step(null)),
    ))
      check(value)
  }
}

function parseJson(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    throw new ConnectorError('config', 'a setting is not the JSON that the manifest demands')
  }
}

function named(part: Component): string {
  const name = optionalText(part, 'class_name')
  return name === null
    ? `${part.type} is not supported`
    : `it needs custom Python code: ${part.type} ${name.split('.').at(-1)}`
}
