/** Dynamic streams: one stream for each set of values that the settings, the manifest or the API give. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import type { Fields } from '../../http/scope.ts'
import { type Component, component, components, type Dict, given, isDict, optionalText } from '../component.ts'
import { readYamlText } from '../document.ts'
import { propagateParameters } from '../parameters.ts'
import { setAt, valueAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import type { Value } from '../template/values.ts'
import type { Environment } from './environment.ts'
import { anyValue, condition, type Kinds, kindsOf, type More, type Site, textValue } from './templates.ts'

const MOST_STREAMS = 5000

/** How the values of an HttpComponentsResolver are read. */
export type ReadComponents = (retriever: Component) => Promise<Fields[]>

/** The streams of a dynamic definition as components, ready to be compiled. */
export async function expandDynamicStream(
  definition: Component,
  environment: Environment,
  readComponents: ReadComponents,
): Promise<Component[]> {
  const resolver = component(definition, 'components_resolver')
  const template = component(definition, 'stream_template')
  const fill = compileMappings(resolver, template, environment)
  const values = await valuesOf(resolver, environment, readComponents)
  if (values.length > MOST_STREAMS)
    throw new ConnectorError('config', `the manifest gives more than ${MOST_STREAMS} streams`)
  const parentsWin = given(definition, 'use_parent_parameters') !== false
  return values.map((each) => typed(propagateParameters(fill(each), '', parentsWin)))
}

/** The template itself, to be checked where no values are known; its mappings must compile as well. */
export function checkedTemplate(definition: Component, environment: Environment): Component {
  const resolver = component(definition, 'components_resolver')
  const template = component(definition, 'stream_template')
  compileMappings(resolver, template, environment)
  if (resolver.type === 'HttpComponentsResolver') component(resolver, 'retriever')
  else if (resolver.type !== 'ConfigComponentsResolver' && resolver.type !== 'ParametrizedComponentsResolver') {
    throw new Unsupported(`${resolver.type} is not supported`)
  }
  const named = optionalText(template, 'name')
    ? template
    : { ...template, name: optionalText(definition, 'name') || 'dynamic' }
  return typed(propagateParameters(named))
}

function typed(stream: Dict): Component {
  return { type: 'DeclarativeStream', ...stream }
}

async function valuesOf(
  resolver: Component,
  environment: Environment,
  readComponents: ReadComponents,
): Promise<Dict[]> {
  if (resolver.type === 'ParametrizedComponentsResolver') {
    const list = given(component(resolver, 'stream_parameters'), 'list_of_parameters_for_stream')
    return Array.isArray(list) ? list.filter(isDict) : []
  }
  if (resolver.type === 'ConfigComponentsResolver') return combinations(resolver, environment)
  if (resolver.type === 'HttpComponentsResolver') return readComponents(component(resolver, 'retriever'))
  throw new Unsupported(`${resolver.type} is not supported`)
}

/** Every combination of the lists that the settings hold. */
function combinations(resolver: Component, environment: Environment): Dict[] {
  const lists = components(resolver, 'stream_config').map((config) => {
    const path = given(config, 'configs_pointer')
    if (!Array.isArray(path)) throw new Unsupported('StreamConfig.configs_pointer is not a list')
    const site: Site = { environment, owner: config, known: 'config' }
    const found = valueAt(
      environment.config,
      path.map((part) => textValue(String(part), site)(null)),
    )
    const usual = given(config, 'default_values')
    const items = found === undefined ? [] : Array.isArray(found) ? found : [found]
    return [...items, ...(Array.isArray(usual) ? usual : [])]
  })
  let made: Dict[] = [{}]
  for (const [index, list] of lists.entries()) {
    if (made.length * list.length > MOST_STREAMS)
      throw new ConnectorError('config', `the manifest gives more than ${MOST_STREAMS} streams`)
    made = made.flatMap((before) =>
      list.map((item, at) => ({ ...before, ...(isDict(item) ? item : { [`source_config_${index}`]: [at, item] }) })),
    )
  }
  return lists.length === 0 ? [] : made
}

function compileMappings(resolver: Component, template: Component, environment: Environment): (values: Dict) => Dict {
  const http = resolver.type === 'HttpComponentsResolver'
  const mappings = components(resolver, 'components_mapping').map((part) => compileMapping(part, resolver, environment))
  return (values) => {
    const made = structuredClone(template) as Dict
    const more = { components_values: values as Value, stream_template_config: template as Value } as More
    for (const { when, value, path, create, kinds } of mappings) {
      if (when !== null && !when(null, more)) continue
      const read = value(null, more)
      const filled = http || (typeof read === 'string' && kinds === 'text') ? read : yamlValue(read)
      const at = path.map((part) => part(null, more))
      if (!setExisting(made, at, filled) && create && isTruthy(filled)) setAt(made, at, filled)
    }
    return made
  }
}

function yamlValue(value: Json): Json {
  return typeof value === 'string' ? readYamlText(value) : value
}

function isTruthy(value: Json): boolean {
  return (
    Boolean(value) &&
    !(Array.isArray(value) && value.length === 0) &&
    !(isDict(value) && Object.keys(value).length === 0)
  )
}

function compileMapping(part: Component, resolver: Component, environment: Environment) {
  const site: Site = { environment, owner: resolver, known: 'components' }
  const path = given(part, 'field_path')
  if (!Array.isArray(path)) throw new Unsupported('ComponentMappingDefinition.field_path is not a list')
  const source = given(part, 'condition')
  const kinds: Kinds | undefined = kindsOf(part)
  return {
    path: path.map((step) => textValue(String(step), site)),
    value: anyValue(optionalText(part, 'value') ?? '', site, kinds),
    when: source === undefined || source === '' ? null : condition(source, site),
    create: given(part, 'create_or_update') === true,
    kinds: given(part, 'value_type') === 'string' ? 'text' : null,
  }
}

/** Sets what exists at a path, with `*` and `**`; false if nothing does. */
function setExisting(root: Json, path: readonly string[], value: Json): boolean {
  const [part, ...rest] = path
  if (part === undefined || typeof root !== 'object' || root === null) return false
  if (part === '**') {
    const here = rest.length > 0 && setExisting(root, rest, value)
    return (
      Object.values(root)
        .map((inner) => setExisting(inner, path, value))
        .some(Boolean) || here
    )
  }
  const keys = part === '*' ? Object.keys(root) : Object.hasOwn(root, part) ? [part] : []
  return keys
    .map((key) => {
      if (rest.length > 0) return setExisting((root as Dict)[key]!, rest, value)
      ;(root as Dict)[key] = value
      return true
    })
    .some(Boolean)
}
