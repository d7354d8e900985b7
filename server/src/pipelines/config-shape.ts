/**
 * What a pipeline's `config` looks like. `source` and `destination` are inline (`name` and settings) or refer to a saved
 * connector; the connector's own settings are checked against its own schema.
 */
import { type Static, Type } from 'typebox'
import type { Authentication, ColumnChoice, Json, SyncMode, WriteMode } from '../connectors/contract.ts'

const closed = { additionalProperties: false }
const anyObject = Type.Object({}, { additionalProperties: true })
const text = (description: string) => Type.String({ minLength: 1, maxLength: 500, description })
const columnNames = (description: string) => Type.Array(text('The name of a column.'), { maxItems: 5000, description })

const UUID = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'
const savedId = Type.String({ pattern: UUID, description: 'The id (UUID) of a saved connector.' })

const inlineSource = Type.Object(
  {
    name: text('The source connector.'),
    stream: text('The stream to read.'),
    authentication: Type.Optional(anyObject),
    config: Type.Optional(anyObject),
  },
  closed,
)
const savedSource = Type.Object(
  { saved_connector_id: savedId, stream: text('The stream to read.'), config: Type.Optional(anyObject) },
  closed,
)
const inlineDestination = Type.Object(
  { name: text('The destination connector.'), config: Type.Optional(anyObject) },
  closed,
)
const savedDestination = Type.Object({ saved_connector_id: savedId, config: Type.Optional(anyObject) }, closed)

const optionalStream = { stream: Type.Optional(text('The stream to read.')) }

export const frames = {
  source: { inline: inlineSource, saved: savedSource },
  /** A source that is only tried out: its stream may be open yet. */
  probed_source: {
    inline: Type.Object({ ...inlineSource.properties, ...optionalStream }, closed),
    saved: Type.Object({ ...savedSource.properties, ...optionalStream }, closed),
  },
  destination: { inline: inlineDestination, saved: savedDestination },
} as const

const sync = Type.Object(
  {
    mode: Type.Optional(Type.Enum(['full_refresh', 'incremental'])),
    cursor_field: Type.Optional(
      Type.Union([
        text('The field that grows with every change: the next run reads what lies behind it.'),
        Type.Null(),
      ]),
    ),
    write: Type.Optional(Type.Enum(['append', 'replace', 'upsert'])),
    primary_key: Type.Optional(columnNames('The columns that tell one record from another.')),
    schema_change: Type.Optional(Type.Enum(['evolve', 'discard', 'fail'])),
    lookback_seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 315_360_000 })),
    allow_empty: Type.Optional(Type.Boolean()),
  },
  closed,
)

const columns = Type.Object(
  {
    include: Type.Optional(Type.Array(text('The name of a column.'), { minItems: 1, maxItems: 5000 })),
    exclude: Type.Optional(columnNames('Columns to leave out.')),
    rename: Type.Optional(Type.Object({}, { additionalProperties: text('The new name.') })),
    hash: Type.Optional(columnNames('Columns whose values are replaced by their SHA-256.')),
  },
  closed,
)

const run = Type.Object(
  {
    timeout_minutes: Type.Optional(Type.Integer({ minimum: 1, maximum: 525_600 })),
    max_attempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    backoff_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 })),
    keep_output: Type.Optional(Type.Boolean()),
  },
  closed,
)

/** `source` and `destination` are looked at after this, by their frames. */
export const configFrame = Type.Object(
  {
    name: Type.Optional(Type.String({ maxLength: 500 })),
    source: anyObject,
    destination: anyObject,
    sync: Type.Optional(sync),
    columns: Type.Optional(columns),
    run: Type.Optional(run),
  },
  closed,
)

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

/** A config that `checkConfig` let pass, as it was given: defaults apply at use. */
export interface PipelineConfig {
  name?: string
  source: SourceConfig
  destination: DestinationConfig
  sync?: Omit<Static<typeof sync>, 'mode' | 'write'> & { mode?: SyncMode; write?: WriteMode }
  columns?: ColumnChoice
  run?: RunOptions
}

export type RunOptions = Static<typeof run>

/** The `config` of a saved source: an inline source without name and stream. */
export interface SavedSourceConfig {
  authentication?: Authentication
  config?: Record<string, Json>
}

export const savedSourceFrame = Type.Object(
  { authentication: Type.Optional(anyObject), config: Type.Optional(anyObject) },
  closed,
)
