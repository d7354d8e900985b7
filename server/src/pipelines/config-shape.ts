/** What a pipeline's `config` looks like around its two sides. */
import { type Static, Type } from 'typebox'
import { anyObject, closed, type DestinationConfig, type SourceConfig, text } from '../connections/endpoint-shape.ts'
import type { ColumnChoice, SyncMode, WriteMode } from '../connectors/contract.ts'

const columnNames = (description: string) => Type.Array(text('The name of a column.'), { maxItems: 5000, description })

const sync = Type.Object(
  {
    mode: Type.Optional(Type.Enum(['full_refresh', 'incremental'])),
    cursor_field: Type.Optional(
      Type.Union([
        text('The field that grows with every change: the next run reads records with higher values.'),
        Type.Null(),
      ]),
    ),
    write: Type.Optional(Type.Enum(['append', 'replace', 'upsert'])),
    primary_key: Type.Optional(columnNames('The columns that identify a record.')),
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

/** `source` and `destination` are checked after this, by their own schemas. */
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

/** A config that passed `checkConfig`, as it was given: defaults apply at use. */
export interface PipelineConfig {
  name?: string
  source: SourceConfig
  destination: DestinationConfig
  sync?: Omit<Static<typeof sync>, 'mode' | 'write'> & { mode?: SyncMode; write?: WriteMode }
  columns?: ColumnChoice
  run?: RunOptions
}

export type RunOptions = Static<typeof run>
