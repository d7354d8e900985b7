/** DynamicSchemaLoader: the columns of a stream as the API describes them. */
import type { Json } from '../../../json/json.ts'
import type { Fields } from '../../http/scope.ts'
import type { Environment } from '../compile/environment.ts'
import { compileFilter } from '../compile/selector.ts'
import { compilePath } from '../compile/selector-paths.ts'
import { condition } from '../compile/templates.ts'
import { compileTransformation } from '../compile/transformations.ts'
import {
  type Component,
  component,
  components,
  type Dict,
  given,
  isDict,
  optionalComponent,
  optionalText,
} from '../component.ts'
import { valueAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import type { Value } from '../template/values.ts'

const TYPES: Record<string, Dict> = {
  string: { type: ['null', 'string'] },
  boolean: { type: ['null', 'boolean'] },
  date: { type: ['null', 'string'], format: 'date' },
  timestamp_without_timezone: {
    type: ['null', 'string'],
    format: 'date-time',
    airbyte_type: 'timestamp_without_timezone',
  },
  timestamp_with_timezone: { type: ['null', 'string'], format: 'date-time', airbyte_type: 'timestamp_with_timezone' },
  time_without_timezone: { type: ['null', 'string'], format: 'time', airbyte_type: 'time_without_timezone' },
  time_with_timezone: { type: ['null', 'string'], format: 'time', airbyte_type: 'time_with_timezone' },
  integer: { type: ['null', 'integer'] },
  number: { type: ['null', 'number'] },
  array: { type: ['null', 'array'] },
  object: { type: ['null', 'object'] },
}

/** The JSON schema that the first record of the loader's retriever describes. */
export type ReadSchema = (record: Fields | undefined) => Json

export function compileSchemaLoader(loader: Component, environment: Environment): ReadSchema {
  const identifier = component(loader, 'schema_type_identifier')
  const [at, keyAt] = [
    compilePath(identifier, 'schema_pointer', environment),
    compilePath(identifier, 'key_pointer', environment),
  ]
  const typeAt =
    given(identifier, 'type_pointer') === undefined ? null : compilePath(identifier, 'type_pointer', environment)
  const typeOf = compileTypes(identifier, environment)
  const transforms = components(loader, 'schema_transformations').map((part) =>
    compileTransformation(part, environment, { extra: new Set() }),
  )
  const filter = optionalComponent(loader, 'schema_filter')
  const keep = filter === null ? null : compileFilter(filter, { environment, owner: filter, known: 'record' })
  return (record) => {
    const found = record === undefined ? [] : at.length === 0 ? record : valueAt(record, at)
    let properties: Fields = {}
    for (const definition of Array.isArray(found) ? found : isDict(found) ? Object.values(found) : []) {
      const key = valueAt(definition, keyAt)
      if (typeof key !== 'string') continue
      properties[key] = typeOf(typeAt === null ? 'string' : (valueAt(definition, typeAt) ?? 'string'), definition)
    }
    if (keep !== null) {
      const kept = Object.entries(properties).filter(([name, type]) => keep(scopeOf({ [name]: type })))
      properties = Object.fromEntries(kept)
    }
    for (const transform of transforms) {
      const made = transform(properties, scopeOf(properties))
      if (isDict(made)) properties = made as Fields
    }
    return { type: 'object', properties }
  }
}

/** A scope in which only the record exists. */
function scopeOf(record: Fields): Parameters<ReturnType<typeof compileTransformation>>[1] {
  return {
    partition: {},
    extra: {},
    interval: {},
    token: null,
    properties: [],
    state: null,
    answer: null,
    record,
    lastRecord: null,
    pageRecords: 0,
    job: null,
    started: new Date(),
  }
}

function compileTypes(identifier: Component, environment: Environment): (type: Json, definition: Json) => Json {
  const maps = components(identifier, 'types_mapping').map((map) => {
    const source = given(map, 'condition')
    return {
      from: given(map, 'current_type') ?? null,
      to: given(map, 'target_type') ?? null,
      when: source === undefined ? null : condition(source, { environment, owner: map, known: 'rawSchema' }),
    }
  })
  return (type, definition) => {
    const map = maps.find(
      ({ from, when }) =>
        JSON.stringify(from) === JSON.stringify(type) &&
        (when === null || when(null, { raw_schema: definition as Value })),
    )
    return schemaOf(map === undefined ? type : map.to)
  }
}

function schemaOf(type: Json): Json {
  if (typeof type === 'string') return TYPES[type] ?? {}
  if (Array.isArray(type)) return { oneOf: type.map(schemaOf) }
  if (!isDict(type)) return {}
  const items = given(type, 'items')
  const name = optionalText(type, 'field_type')
  if (name === null) throw new Unsupported('ComplexFieldType has no field_type')
  return { ...(schemaOf(name) as Dict), ...(items !== undefined && { items: schemaOf(items) }) }
}
