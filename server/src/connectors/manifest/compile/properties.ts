/** QueryProperties: names of properties that a request lists, in chunks where the API limits them. */
import type { PagesPlan, PropertiesPlan } from '../../http/plan.ts'
import type { RecordsPlan } from '../../http/records-plan.ts'
import {
  type Component,
  component,
  given,
  isComponent,
  optionalComponent,
  optionalText,
  refuse,
  wholeNumber,
} from '../component.ts'
import { valueAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { compilePath } from './selector-paths.ts'

/** How a retriever inside of another component is compiled. */
export type CompileRetriever = (retriever: Component) => { retrieval: PagesPlan; records: RecordsPlan }

export function compileProperties(
  source: Component,
  environment: Environment,
  compileRetriever: CompileRetriever,
): PropertiesPlan {
  const chunking = optionalComponent(source, 'property_chunking')
  const always = given(source, 'always_include_properties')
  const selector = optionalComponent(source, 'property_selector')
  // It narrows the list to the columns that a person chose; all columns are chosen here, and the engine leaves out others.
  if (selector !== null) {
    if (selector.type !== 'JsonSchemaPropertySelector') throw new Unsupported(`${selector.type} is not supported`)
    refuse(selector, ['properties_transformations'])
  }
  return {
    list: compileList(source, environment, compileRetriever),
    always: Array.isArray(always) ? always.map(String) : [],
    limit: chunking === null ? null : limitOf(chunking),
    mergeBy: chunking === null ? [] : mergeKeys(chunking),
  }
}

function compileList(
  source: Component,
  environment: Environment,
  compileRetriever: CompileRetriever,
): PropertiesPlan['list'] {
  const list = given(source, 'property_list')
  if (list === undefined) return []
  if (Array.isArray(list)) return list.map(String)
  if (!isComponent(list) || list.type !== 'PropertiesFromEndpoint')
    throw new Unsupported('QueryProperties.property_list is not a list')
  const path = compilePath(list, 'property_field_path', environment)
  return {
    ...compileRetriever(component(list, 'retriever')),
    name: (record) => {
      const name = valueAt(record, path)
      return name === undefined || name === null ? null : String(name)
    },
  }
}

/** Airbyte counts three characters for the separator, as it is written in an address. */
function limitOf(chunking: Component): PropertiesPlan['limit'] {
  const most = wholeNumber(chunking, 'property_limit', 0)
  if (most === 0) return null
  const type = optionalText(chunking, 'property_limit_type') ?? 'property_count'
  if (type === 'characters') return { by: 'characters', most, separator: '%2C' }
  if (type === 'property_count') return { by: 'count', most, separator: ',' }
  throw new Unsupported(`PropertyChunking.property_limit_type ${type} is unknown`)
}

function mergeKeys(chunking: Component): string[][] {
  const strategy = optionalComponent(chunking, 'record_merge_strategy')
  if (strategy === null) return [['id']]
  if (strategy.type !== 'GroupByKeyMergeStrategy') throw new Unsupported(`${strategy.type} is not supported`)
  const key = given(strategy, 'key')
  return (Array.isArray(key) ? key : [key ?? 'id']).map((name) => [String(name)])
}
