/**
 * A pipeline's config as JSON Schemas by name, for the API reference and the clients that are generated from it: every
 * connector with its own settings, told apart by `name`. Made from the declarations that configs are checked against, but
 * not used for that: `checkConfig` explains a fault better than a schema can.
 */
import { frames } from '../connections/endpoint-shape.ts'
import { authenticationTypes } from '../connectors/authentication/authentication.ts'
import type { Destination, Source } from '../connectors/contract.ts'
import { destinations, sources } from '../connectors/registry.ts'
import type { Node } from '../connectors/settings/settings.ts'
import { configFrame } from './config-shape.ts'

export type JsonSchema = { [keyword: string]: unknown }

/** They refer to each other, and must be under `#/components/schemas/`. */
export function describeConfigs(): Record<string, JsonSchema> {
  const parts = (configFrame as unknown as { properties: Record<string, JsonSchema> }).properties
  const whole = plain(configFrame)
  const config = (source: string): JsonSchema => ({
    ...whole,
    properties: {
      ...(whole.properties as object),
      source: ref(source),
      destination: ref('PipelineDestination'),
      sync: ref('PipelineSync'),
      columns: ref('PipelineColumns'),
      run: ref('PipelineRunOptions'),
    },
  })
  return {
    PipelineConfig: config('PipelineSource'),
    BulkPipelineConfig: {
      ...config('BulkPipelineSource'),
      description: 'As for one pipeline, but its source has no stream',
    },
    PipelineSync: plain(parts.sync!),
    PipelineColumns: plain(parts.columns!),
    PipelineRunOptions: plain(parts.run!),
    ...describeSources('PipelineSource', ''),
    ...describeSources('BulkPipelineSource', 'Bulk'),
    ...describeDestinations(),
    ...describeAuthentication(),
    ...Object.fromEntries(
      [...sources, ...destinations].map((connector) => [settingsName(connector), plain(connector.settings)]),
    ),
  }
}

const ref = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` })
const object = (properties: Record<string, JsonSchema>, required: string[]): JsonSchema => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
/** `oauth2_client_credentials` → `Oauth2ClientCredentials`. */
const pascal = (name: string): string => name.replace(/(?:^|_)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
const nameOf = ({ name, kind }: Source | Destination): string => pascal(`${name}_${kind}`)
const settingsName = (connector: Source | Destination): string => `${nameOf(connector)}Settings`

/** A union of objects, discriminated by a field. */
const discriminated = (propertyName: string, mapping: Record<string, string>): JsonSchema => {
  const refs = Object.fromEntries(Object.entries(mapping).map(([value, name]) => [value, ref(name).$ref]))
  return { oneOf: Object.values(refs).map(($ref) => ({ $ref })), discriminator: { propertyName, mapping: refs } }
}

/** Inline, saved or custom: a custom source may have any name, so the name cannot be the discriminator. */
function describeSources(name: string, prefix: '' | 'Bulk'): Record<string, JsonSchema> {
  const { stream } = frames.source.inline.properties
  const withStream = (own: Record<string, JsonSchema>, streams: Source['streams'], required: string[]): JsonSchema =>
    prefix === 'Bulk'
      ? object(own, required)
      : object({ ...own, stream: streams === 'dynamic' ? plain(stream) : { type: 'string', enum: [...streams] } }, [
          ...required,
          'stream',
        ])
  const free = { type: 'object', additionalProperties: true }
  const parts = {
    [`${prefix}BuiltInSource`]: discriminated(
      'name',
      Object.fromEntries(sources.map((source) => [source.name, `${prefix}${nameOf(source)}`])),
    ),
    [`${prefix}SavedSourceReference`]: withStream(
      {
        saved_connector_id: { type: 'string', format: 'uuid' },
        config: { ...free, description: 'Settings that the connector lets a pipeline choose' },
      },
      'dynamic',
      ['saved_connector_id'],
    ),
    [`${prefix}CustomSourceReference`]: withStream(
      {
        name: { type: 'string', minLength: 1, description: 'The source_name of a custom source' },
        authentication: ref('CustomAuthentication'),
        config: { ...free, description: 'Settings of the custom source' },
      },
      'dynamic',
      ['name'],
    ),
  }
  return {
    [name]: { anyOf: Object.keys(parts).map(ref) },
    ...parts,
    ...Object.fromEntries(
      sources.map((source) => [
        `${prefix}${nameOf(source)}`,
        withStream(
          {
            name: { type: 'string', const: source.name },
            authentication: describeChoice(source.auth_types),
            config: ref(settingsName(source)),
          },
          source.streams,
          ['name', ...requiredConfig(source)],
        ),
      ]),
    ),
  }
}

function describeDestinations(): Record<string, JsonSchema> {
  return {
    PipelineDestination: { anyOf: [ref('BuiltInDestination'), ref('SavedDestinationReference')] },
    BuiltInDestination: discriminated(
      'name',
      Object.fromEntries(destinations.map((found) => [found.name, nameOf(found)])),
    ),
    SavedDestinationReference: object(
      {
        saved_connector_id: { type: 'string', format: 'uuid' },
        config: {
          type: 'object',
          additionalProperties: true,
          description: 'Settings that the connector lets a pipeline choose',
        },
      },
      ['saved_connector_id'],
    ),
    ...Object.fromEntries(
      destinations.map((found) => [
        nameOf(found),
        object({ name: { type: 'string', const: found.name }, config: ref(settingsName(found)) }, [
          'name',
          ...requiredConfig(found),
        ]),
      ]),
    ),
  }
}

const requiredConfig = ({ settings }: Source | Destination): string[] =>
  (plain(settings).required as string[] | undefined)?.length ? ['config'] : []

const authenticationName = (type: string): string =>
  type === 'none' ? 'NoAuthentication' : `${pascal(type)}Authentication`

function describeAuthentication(): Record<string, JsonSchema> {
  const types = Object.entries(authenticationTypes).map(([type, params]) => [
    authenticationName(type),
    object(
      { type: { type: 'string', const: type }, params: plain(params) },
      type === 'none' ? ['type'] : ['type', 'params'],
    ),
  ])
  return {
    ...Object.fromEntries(types),
    CustomAuthentication: object(
      { type: { type: 'string', minLength: 1 }, params: { type: 'object', additionalProperties: true } },
      ['type'],
    ),
  }
}

/** `none` is accepted everywhere. */
const describeChoice = (types: readonly string[]): JsonSchema =>
  discriminated(
    'type',
    Object.fromEntries([...new Set([...types, 'none'])].map((type) => [type, authenticationName(type)])),
  )

/** Without our own keywords, and without requiring what has a default. */
function plain(schema: object): JsonSchema {
  const { secret, override, required, properties, items, anyOf, additionalProperties, ...rest } = schema as Node & {
    [keyword: string]: unknown
  }
  const choices = anyOf?.every((member) => typeof member.const === 'string') && anyOf.map((member) => member.const)
  const needed = required?.filter((name) => properties?.[name]?.default === undefined) ?? []
  return {
    ...rest,
    ...(secret && rest.type === 'string' && { format: 'password' }),
    ...(choices ? { type: 'string', enum: choices } : anyOf && { anyOf: anyOf.map(plain) }),
    ...(rest.enum?.every((value) => typeof value === 'string') && { type: 'string' }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, plain(inner)])),
    }),
    ...(needed.length > 0 && { required: needed }),
    ...(items && { items: plain(items) }),
    ...(additionalProperties !== undefined && {
      additionalProperties:
        typeof additionalProperties === 'object' ? plain(additionalProperties) : additionalProperties,
    }),
  }
}
