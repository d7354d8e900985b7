/**
 * The shape of one side of a pipeline: inline (`name` and settings), or a reference to a saved connector. The
 * connector's settings are checked against its own schema.
 */

import type { Authentication } from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import { Type } from '../schema.ts'

export const closed = { additionalProperties: false }
export const anyObject = Type.Object({}, { additionalProperties: true })
export const text = (description: string) => Type.String({ minLength: 1, maxLength: 500, description })

const UUID = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'
const savedId = Type.String({ pattern: UUID, description: 'The id (UUID) of a saved connector.' })

const object = (description: string) => Type.Object({}, { additionalProperties: true, description })
const overrides = object('Settings that differ from those of the saved connector, where it lets them.')

const inlineSource = Type.Object(
  {
    name: text('The source connector.'),
    stream: text('The stream to read.'),
    authentication: Type.Optional(object('How to authenticate: type and params. Default: none.')),
    config: Type.Optional(object('The settings of the connector.')),
  },
  closed,
)
const savedSource = Type.Object(
  { saved_connector_id: savedId, stream: text('The stream to read.'), config: Type.Optional(overrides) },
  closed,
)
const inlineDestination = Type.Object(
  { name: text('The destination connector.'), config: Type.Optional(object('The settings of the connector.')) },
  closed,
)
const savedDestination = Type.Object({ saved_connector_id: savedId, config: Type.Optional(overrides) }, closed)

const optionalStream = { stream: Type.Optional(text('The stream to read.')) }

export const frames = {
  source: { inline: inlineSource, saved: savedSource },
  /** A source that is only probed: it may have no stream yet. */
  probed_source: {
    inline: Type.Object({ ...inlineSource.properties, ...optionalStream }, closed),
    saved: Type.Object({ ...savedSource.properties, ...optionalStream }, closed),
  },
  destination: { inline: inlineDestination, saved: savedDestination },
} as const

export interface SourceConfig {
  name?: string
  saved_connector_id?: string
  stream: string
  authentication?: Authentication
  config?: Record<string, Json>
}

export interface DestinationConfig {
  name?: string
  saved_connector_id?: string
  config?: Record<string, Json>
}

/** The `config` of a saved source: an inline source without name and stream. */
export interface SavedSourceConfig {
  authentication?: Authentication
  config?: Record<string, Json>
}

export const savedSourceFrame = Type.Object(
  { authentication: Type.Optional(anyObject), config: Type.Optional(anyObject) },
  closed,
)
