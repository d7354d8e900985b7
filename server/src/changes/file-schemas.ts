/** JSON Schemas of the files that hold an organization, for editors. Made from the declarations that objects are checked against. */
import { describeConfigs, type JsonSchema } from '../pipelines/config-schema.ts'
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

/** Saved connectors are named. */
function readDefinitions(): Defs {
  const text = JSON.stringify(describeConfigs()).replaceAll('#/components/schemas/', '#/definitions/')
  const defs = JSON.parse(text) as Defs
  for (const [name, side] of [
    ['SavedSourceReference', 'source'],
    ['SavedDestinationReference', 'destination'],
  ] as const) {
    const { properties: known, required, ...rest } = defs[name] as { properties: JsonSchema; required: string[] }
    const { saved_connector_id: _, ...others } = known
    const connection = { type: 'string', minLength: 1, description: `The name of a saved ${side}` }
    defs[name] = {
      ...rest,
      properties: { connection, ...others },
      required: required.map((field) => (field === 'saved_connector_id' ? 'connection' : field)),
    }
  }
  return defs
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

/** The settings follow from the connector. What a pipeline may add is not required. */
function describeConnection(defs: Defs): JsonSchema {
  const rules = ['BuiltInSource', 'BuiltInDestination'].flatMap((choice) => {
    const type = choice === 'BuiltInSource' ? 'source' : 'destination'
    const { mapping } = (defs[choice] as { discriminator: { mapping: Record<string, string> } }).discriminator
    return Object.entries(mapping).map(([connector, target]) => {
      const { authentication, config } = (defs[target.split('/').at(-1)!] as { properties: Record<string, JsonSchema> })
        .properties
      const { required: _, ...settings } = defs[String(config!.$ref).split('/').at(-1)!]!
      return {
        if: { properties: { type: { const: type }, connector_name: { const: connector } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: {
          properties: {
            config:
              type === 'destination'
                ? settings
                : { type: 'object', properties: { authentication, config: settings }, additionalProperties: false },
          },
        },
      }
    })
  })
  return { ...plain(connectionFrame), allOf: rules }
}

function describeSource(): JsonSchema {
  const { code: _, ...known } = properties(sourceFrame)
  const { required = [], ...rest } = plain(sourceFrame) as { required?: string[] }
  return { ...rest, properties: known, required: required.filter((name) => name !== 'code') }
}

const plain = (schema: object): JsonSchema => JSON.parse(JSON.stringify(schema)) as JsonSchema
const properties = (schema: object) => plain(schema).properties as Record<string, JsonSchema>

const ref = (name: string): JsonSchema => ({ $ref: `#/definitions/${name}` })
