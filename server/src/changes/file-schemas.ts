/**
 * JSON Schemas of the files that hold an organization, for editors. Made from the declarations that objects are checked against.
 * What depends on the connector is told apart by its name with if and then: the errors of a choice among all connectors would
 * name every one of them.
 */
import type { Destination, Either, Source } from '../connectors/contract.ts'
import { destinations, sources } from '../connectors/registry.ts'
import type { Node } from '../connectors/settings/settings.ts'
import { describeConfigs, type JsonSchema } from '../pipelines/config-schema.ts'
import { allowReferences } from './referable.ts'
import { connectionFrame, domainFrame, pipelineFrame, sourceFrame } from './shape.ts'

export const SCHEMA_NAMES = ['pipeline', 'connection', 'source', 'domains'] as const
type SchemaName = (typeof SCHEMA_NAMES)[number]

const DIALECT = 'http://json-schema.org/draft-07/schema#'

export function describeFiles(): Record<SchemaName, JsonSchema> {
  const defs = readDefinitions()
  return {
    pipeline: file(
      'A pipeline of Sluice',
      { ...plain(pipelineFrame), properties: { ...properties(pipelineFrame), config: ref('PipelineConfig') } },
      defs,
    ),
    connection: file('A saved source or destination of Sluice', describeConnection(defs), defs),
    source: file(
      'A custom source of Sluice; its code is in the file of the same name that ends with .py, or in manifests/',
      describeSource(),
      {},
    ),
    domains: file('The domains of Sluice', { type: 'array', items: plain(domainFrame) }, {}),
  }
}

type Defs = Record<string, JsonSchema>

function readDefinitions(): Defs {
  const text = JSON.stringify(describeConfigs()).replaceAll('#/components/schemas/', '#/definitions/')
  const described = JSON.parse(text) as Defs
  const defs = Object.fromEntries(
    Object.entries(described).map(([name, schema]) => [name, allowReferences(nameChoices(requireEither(schema)))]),
  )
  for (const side of ['source', 'destination'] as const) {
    const saved = side === 'source' ? 'SavedSourceReference' : 'SavedDestinationReference'
    defs[saved] = referByName(defs[saved]!, side)
    defs[side === 'source' ? 'PipelineSource' : 'PipelineDestination'] = allowReferences(describeSide(side, described))
  }
  return defs
}

/** Saved connectors are named. */
function referByName(schema: JsonSchema, side: string): JsonSchema {
  const { properties: known, required, ...rest } = schema as { properties: JsonSchema; required: string[] }
  const { saved_connector_id: _, ...others } = known
  return {
    ...rest,
    properties: { connection: namedConnection(side), ...others },
    required: required.map((field) => (field === 'saved_connector_id' ? 'connection' : field)),
  }
}

const namedConnection = (side: string): JsonSchema => ({
  type: 'string',
  minLength: 1,
  description: `The name of a saved ${side}`,
})

/** Inline, saved or, of sources, custom: those have any other name. */
function describeSide(side: 'source' | 'destination', defs: Defs): JsonSchema {
  const builtIn = mappingOf(defs[side === 'source' ? 'BuiltInSource' : 'BuiltInDestination']!)
  const names = Object.keys(builtIn)
  const isSource = side === 'source'
  return {
    type: 'object',
    properties: {
      name: isSource
        ? {
            anyOf: [{ enum: names }, { type: 'string', minLength: 1 }],
            description: 'The connector, such as postgres, or the source_name of a custom source',
          }
        : { type: 'string', enum: names, description: 'The connector, such as postgres' },
      connection: namedConnection(side),
    },
    if: { required: ['connection'] },
    ...branch(ref(isSource ? 'SavedSourceReference' : 'SavedDestinationReference')),
    else: {
      required: ['name'],
      allOf: [
        ...Object.entries(builtIn).map(([connector, target]) => when({ name: { const: connector } }, { $ref: target })),
        ...(isSource ? [when({ name: { not: { enum: names } } }, ref('CustomSourceReference'))] : []),
      ],
    },
  }
}

const mappingOf = (schema: JsonSchema): Record<string, string> =>
  (schema as { discriminator: { mapping: Record<string, string> } }).discriminator.mapping

const branch = (schema: JsonSchema): JsonSchema =>
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  ({ then: schema })

/** A rule for objects with these fields. */
const when = (fields: Record<string, JsonSchema>, schema: JsonSchema): JsonSchema => ({
  if: { properties: fields, required: Object.keys(fields) },
  ...branch(schema),
})

/** Choices that a field tells apart, such as the type of an authentication, at any depth. */
function nameChoices(schema: JsonSchema): JsonSchema {
  const inside = schema.properties as Record<string, JsonSchema> | undefined
  if (inside)
    return {
      ...schema,
      properties: Object.fromEntries(Object.entries(inside).map(([name, inner]) => [name, nameChoices(inner)])),
    }
  if (schema.discriminator === undefined) return schema
  const { propertyName } = schema.discriminator as { propertyName: string }
  const mapping = mappingOf(schema)
  return {
    type: 'object',
    properties: { [propertyName]: { type: 'string', enum: Object.keys(mapping) } },
    required: [propertyName],
    allOf: Object.entries(mapping).map(([value, target]) =>
      when({ [propertyName]: { const: value } }, { $ref: target }),
    ),
  }
}

/** Of several ways to say where something is, one has to be chosen; the first field of each is the one that it cannot do without. */
function requireEither(schema: JsonSchema): JsonSchema {
  const { either } = schema as { either?: Either }
  return either ? { ...schema, anyOf: either.map(({ fields: [first] }) => ({ required: [first] })) } : schema
}

/** Only the definitions that are used. */
function file(title: string, schema: JsonSchema, defs: Defs): JsonSchema {
  const used = new Set<string>()
  const visit = (value: unknown): void => {
    for (const [, name] of JSON.stringify(value).matchAll(/"#\/definitions\/([^"]+)"/g))
      if (!used.has(name!)) {
        used.add(name!)
        visit(defs[name!])
      }
  }
  visit(schema)
  const definitions = Object.fromEntries([...used].sort().map((name) => [name, defs[name]!]))
  return { $schema: DIALECT, title, ...schema, ...(used.size > 0 && { definitions }) }
}

/** The settings follow from the connector. */
function describeConnection(defs: Defs): JsonSchema {
  const builtIn = sources.map(({ name }) => name)
  const type = (value: string): Record<string, JsonSchema> => ({ type: { const: value } })
  const rules = [...sources, ...destinations].map((connector) =>
    when({ ...type(connector.kind), connector_name: { const: connector.name } }, describeSaved(connector, defs)),
  )
  const custom = savedSource({ authentication: ref('CustomAuthentication'), config: { type: 'object' } })
  return {
    ...plain(connectionFrame),
    properties: { ...properties(connectionFrame), config: allowReferences({ type: 'object' }) },
    allOf: [
      ...rules,
      when(type('destination'), { properties: { connector_name: { enum: destinations.map(({ name }) => name) } } }),
      when({ ...type('source'), connector_name: { not: { enum: builtIn } } }, { properties: { config: custom } }),
    ],
  }
}

const savedSource = (properties: Record<string, JsonSchema>, required: string[] = []): JsonSchema =>
  allowReferences({
    type: 'object',
    properties,
    additionalProperties: false,
    ...(required.length > 0 && { required }),
  })

/** What a pipeline may add is not required. */
function describeSaved(connector: Source | Destination, defs: Defs): JsonSchema {
  const capital = (text: string) => text.replace(/(?:^|_)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
  const side = defs[capital(`${connector.name}_${connector.kind}`)] as { properties: Record<string, JsonSchema> }
  const { authentication, config } = side.properties
  const { required = [], ...rest } = defs[String(config!.$ref).split('/').at(-1)!] as { required?: string[] }
  const declared = (connector.settings as Node).properties ?? {}
  const needed = required.filter((name) => !declared[name]?.override)
  const settings: JsonSchema = { ...rest, ...(needed.length > 0 && { required: needed }) }
  const demanded = needed.length > 0 || settings.anyOf !== undefined ? ['config'] : []
  const saved =
    connector.kind === 'destination'
      ? settings
      : savedSource({ authentication: authentication!, config: settings }, demanded)
  return { properties: { config: saved }, ...(demanded.length > 0 && { required: demanded }) }
}

function describeSource(): JsonSchema {
  const { code: _, ...known } = properties(sourceFrame)
  const { required = [], ...rest } = plain(sourceFrame) as { required?: string[] }
  return { ...rest, properties: known, required: required.filter((name) => name !== 'code') }
}

const plain = (schema: object): JsonSchema => JSON.parse(JSON.stringify(schema)) as JsonSchema
const properties = (schema: object) => plain(schema).properties as Record<string, JsonSchema>

const ref = (name: string): JsonSchema => ({ $ref: `#/definitions/${name}` })
