/**
 * Makes of the document that the routes give one from which usable clients can be generated: schemas and error responses
 * stand once, by name, under `components`; what has a default need not be given; enumerations say their type.
 */
import { isDeepStrictEqual } from 'node:util'
import { catalogue } from '../errors.ts'
import { describeConfigs, type JsonSchema } from '../pipelines/config-schema.ts'

interface Document {
  components?: { schemas?: Record<string, unknown> }
  paths?: Record<string, unknown>
}

interface Operation {
  parameters?: { required?: boolean; schema?: { default?: unknown } }[]
  responses?: Record<string, JsonSchema>
  requestBody?: { required?: boolean; content: Record<string, { schema: { type?: string | string[] } }> }
}

export function nameComponents<T extends Document>(document: T): T {
  const described = describeConfigs()
  const named: Record<string, JsonSchema> = {}

  function name(title: string, schema: JsonSchema): JsonSchema {
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
    if (isName && Object.hasOwn(described, title)) return name(title, described[title]!)
    const schema = Object.fromEntries(
      Object.entries(isName ? own : (node as JsonSchema)).map(([key, inner]) => [key, visit(inner)]),
    )
    const typed = typeEnumeration(schema)
    return isName ? name(title, typed) : typed
  }

  const given = structuredClone(document.paths) as Record<string, Record<string, Operation>>
  Object.values(given).flatMap(Object.values).forEach(relax)
  const paths = visit(given) as typeof given
  const responses = nameProblems(Object.values(paths).flatMap(Object.values))
  const schemas = sorted<JsonSchema>({ ...described, ...named })
  const enumerations = Object.entries(schemas).filter(([, schema]) => schema.enum !== undefined)
  const names = new Map(enumerations.map(([title, schema]) => [JSON.stringify(schema.enum), title]))
  const components = {
    ...document.components,
    schemas: { ...(referToEnumerations(schemas, names) as typeof schemas), ...Object.fromEntries(enumerations) },
    responses,
  }
  return { ...document, paths: referToEnumerations(paths, names), components }
}

const sorted = <T>(entries: Record<string, T>): Record<string, T> =>
  Object.fromEntries(Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1)))

/** What has a default need not be given, and a body that may be null may be absent. */
function relax({ parameters = [], requestBody }: Operation): void {
  for (const parameter of parameters) if (parameter.schema?.default !== undefined) parameter.required = false
  const schema = requestBody?.content['application/json']?.schema
  if (!requestBody || !Array.isArray(schema?.type)) return
  requestBody.required = false
  schema.type = schema.type.filter((type) => type !== 'null').join()
}

/** Errors say the same at every route: the operations refer to them by the names of the catalogue. */
function nameProblems(operations: Operation[]): Record<string, JsonSchema> {
  const named: Record<string, JsonSchema> = {}
  for (const { responses = {} } of operations)
    for (const [code, { status, about }] of Object.entries(catalogue)) {
      const response = responses[status]
      if (response?.description !== about) continue
      const name = code.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())
      if (named[name] && !isDeepStrictEqual(named[name], response)) continue
      named[name] = response
      responses[status] = { $ref: `#/components/responses/${name}` }
    }
  return sorted(named)
}

/** A list of values without its type is none to most generators, and one with null in it several. */
function typeEnumeration(schema: JsonSchema): JsonSchema {
  if (!Array.isArray(schema.enum)) return schema
  const { enum: given, type: _type, description, ...rest } = schema
  const values = given as unknown[]
  const kinds = new Set(values.filter((value) => value !== null).map((value) => typeof value))
  const type = kinds.has('number') ? 'integer' : [...kinds][0]
  const about = description === undefined ? {} : { description }
  if (!values.includes(null)) return { ...rest, type, enum: values, ...about }
  const members = [{ ...rest, type, enum: values.filter((value) => value !== null) }, { type: 'null' }]
  return { anyOf: members, ...about }
}

/** Refers to an enumeration that has a name wherever the same values are listed. */
function referToEnumerations(node: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(node)) return node.map((item) => referToEnumerations(item, names))
  if (typeof node !== 'object' || node === null) return node
  const { enum: values, type: _type, ...rest } = node as JsonSchema
  const name = values && names.get(JSON.stringify(values))
  if (name) return { $ref: `#/components/schemas/${name}`, ...rest }
  return Object.fromEntries(Object.entries(node).map(([key, inner]) => [key, referToEnumerations(inner, names)]))
}
