/** Schema loaders: the JSON schema of a stream, where the manifest holds it. */
import type { Json } from '../../../json/json.ts'
import { type Component, type Dict, given, isComponent, isDict } from '../component.ts'
import { Unsupported } from '../problems.ts'

export interface LoadedSchema {
  /** Null if only the API, or a file that is not part of the manifest, would tell. */
  schema: Json | null
  /** A loader that asks the API. */
  dynamic: Component[]
}

export function loadSchema(stream: Component): LoadedSchema {
  const loader = given(stream, 'schema_loader')
  const loaders = loader === undefined ? [] : Array.isArray(loader) ? loader : [loader]
  const loaded: LoadedSchema = { schema: null, dynamic: [] }
  for (const part of loaders) {
    if (!isComponent(part)) throw new Unsupported('DeclarativeStream.schema_loader is not a component')
    if (part.type === 'InlineSchemaLoader') loaded.schema = merged(loaded.schema, given(part, 'schema') ?? null)
    else if (part.type === 'DynamicSchemaLoader') loaded.dynamic.push(part)
    else if (part.type === 'CompositeSchemaLoader') {
      const inner = loadSchema({ type: 'DeclarativeStream', schema_loader: given(part, 'schema_loaders') ?? null })
      loaded.schema = merged(loaded.schema, inner.schema)
      loaded.dynamic.push(...inner.dynamic)
    } else if (part.type === 'JsonFileSchemaLoader') {
      throw new Unsupported('JsonFileSchemaLoader reads a file that is not part of the manifest; put the schema inline')
    } else throw new Unsupported(`${part.type} is not supported`)
  }
  return loaded
}

function merged(first: Json | null, second: Json | null): Json | null {
  if (!isDict(first)) return second
  if (!isDict(second)) return first
  return { ...first, ...second, properties: { ...propertiesOf(first), ...propertiesOf(second) } }
}

function propertiesOf(schema: Dict): Dict {
  return isDict(schema.properties) ? schema.properties : {}
}
