/**
 * Makes of the document that the routes give one from which usable clients can be generated: schemas stand once, by name,
 * under `components`; what has a default need not be given; enumerations say their type.
 */
import { isDeepStrictEqual } from 'node:util'
import { describeConfigs, type JsonSchema } from '../pipelines/config-schema.ts'

interface Document {
  components?: { schemas?: Record<string, unknown> }
  paths?: Record<string, unknown>
}

interface Operation {
  parameters?: { required?: boolean; schema?: { default?: unknown } }[]
  requestBody?: { required?: boolean; content: Record<string, { schema: { type?: string | string[] } }> }
}

export function nameComponents<T extends Document>(document: T): T {
  const described = describeConfigs()
  const named: Record<string, unknown> = {}

  function name(title: string, schema: unknown): JsonSchema {
    if (Object.hasOwn(named, title) && !isDeepStrictEqual(named[title], schema))
      throw new Error(`Two different schemas of the API are named ${title}`)
    named[title] = schema
    return { $ref: `#/components/schemas/${title}` }
  }

  function visit(node: unknown): unknown {
    if (Array.isArray(node)) return node.map(visit)
    if (typeof node !== 'object' || node === null) return node
    const { title, ...own } = node as JsonSchema
    const isName = typeof title === 'string'
    if (isName && Object.hasOwn(described, title)) return name(title, described[title])
    const schema = Object.fromEntries(
      Object.entries(isName ? own : (node as JsonSchema)).map(([key, inner]) => [key, visit(inner)]),
    )
    typeEnumeration(schema)
    return isName ? name(title, schema) : schema
  }

  const given = structuredClone(document.paths) as Record<string, Record<string, Operation>>
  Object.values(given).flatMap(Object.values).forEach(relax)
  const paths = visit(given) as Document['paths']
  const used = Object.keys(named).some((title) => Object.hasOwn(described, title)) ? described : {}
  const schemas = Object.entries({ ...used, ...named }).sort(([a], [b]) => (a < b ? -1 : 1))
  return { ...document, paths, components: { ...document.components, schemas: Object.fromEntries(schemas) } }
}

/** What has a default need not be given, and a body that may be null may be absent. */
function relax({ parameters = [], requestBody }: Operation): void {
  for (const parameter of parameters) if (parameter.schema?.default !== undefined) parameter.required = false
  const schema = requestBody?.content['application/json']?.schema
  if (!requestBody || !Array.isArray(schema?.type)) return
  requestBody.required = false
  schema.type = schema.type.filter((type) => type !== 'null').join()
}

function typeEnumeration(schema: JsonSchema): void {
  if (!Array.isArray(schema.enum) || schema.type !== undefined) return
  const kinds = new Set(schema.enum.map((value) => (value === null ? 'null' : typeof value)))
  if (kinds.isSubsetOf(new Set(['string', 'null']))) schema.type = kinds.size === 1 ? [...kinds][0] : [...kinds]
}
