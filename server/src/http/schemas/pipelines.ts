import { PIPELINE_SORTS } from '../../pipelines/list.ts'
import { RUN_STATUSES } from '../../runs/states.ts'
import { Type } from '../../schema.ts'
import { Name, NOT_BLANK, Nullable, Paging, Timestamp, Uuid } from './common.ts'

const Schedule = Nullable(
  Type.String({
    maxLength: 200,
    description: 'Cron with five fields: minute, hour, day, month, weekday. Null or empty: manual runs only',
  }),
)
const Timezone = Nullable(
  Type.String({ minLength: 1, maxLength: 100, description: 'IANA name such as Europe/Berlin; null is UTC' }),
)
/**
 * Its shape is checked by the product, which can say more about a fault than a schema; in the reference the schemas of
 * pipelines/config-schema.ts stand in its place.
 */
export const Config = Type.Unsafe<Record<string, unknown>>({
  title: 'PipelineConfig',
  type: 'object',
  description:
    'source, destination and optionally name, sync, columns, run. A source or destination is inline (name, config) or refers to a saved connector (saved_connector_id).',
})

export const CreatePipeline = Type.Object({
  name: Name,
  config: Config,
  schedule: Type.Optional(Schedule),
  timezone: Type.Optional(Timezone),
  enabled: Type.Optional(Type.Boolean()),
  domain_id: Type.Optional(Nullable(Uuid)),
})

export const UpdatePipeline = Type.Object({
  ...Type.Partial(CreatePipeline).properties,
  dry_run: Type.Optional(Type.Boolean({ description: 'Change nothing; answer with what the pipeline would be' })),
})

export const BulkPipelines = Type.Object({
  config: Type.Unsafe<Record<string, unknown>>({
    title: 'BulkPipelineConfig',
    type: 'object',
    description: 'As for one pipeline, but its source has no stream',
  }),
  streams: Type.Union(
    [
      Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1, maxItems: 500, uniqueItems: true }),
      Type.Literal('all'),
      Type.Object({ pattern: Type.String({ minLength: 1, maxLength: 500 }) }),
    ],
    {
      description:
        'Names, "all", or a pattern in which * stands for any characters and ? for one. Each gets a pipeline',
    },
  ),
  name_pattern: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, pattern: NOT_BLANK, description: 'May contain {source} and {stream}' }),
  ),
  table_pattern: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: NOT_BLANK,
      description: "The table of each pipeline, as in 'raw_{stream}'; may contain {stream}, {schema} and {source}",
    }),
  ),
  dry_run: Type.Optional(Type.Boolean({ description: 'Create nothing; answer with what would be created' })),
  schedule: Type.Optional(Schedule),
  timezone: Type.Optional(Timezone),
  enabled: Type.Optional(Type.Boolean()),
  domain_id: Type.Optional(Nullable(Uuid)),
})

export const BulkPlan = Type.Object({
  plan: Type.Array(
    Type.Object({
      stream: Type.String(),
      name: Type.String(),
      table: Nullable(Type.String({ description: 'Null if the destination has no tables' })),
      mode: Type.String(),
      write: Type.String(),
      cursor_field: Nullable(Type.String()),
      primary_key: Type.Array(Type.String()),
    }),
  ),
  problems: Type.Array(Type.String(), { description: 'Without dry_run, any of these would refuse the request' }),
})

export const CopyPipeline = Nullable(
  Type.Object({ name: Type.Optional(Nullable(Name)) }, { description: 'Generated if absent' }),
)

export const PreviewSchedule = Type.Object({
  schedule: Type.String({ maxLength: 200 }),
  timezone: Type.Optional(Timezone),
})

export const SchedulePreview = Type.Object({
  schedule: Type.String(),
  timezone: Nullable(Type.String()),
  next_times: Type.Array(Timestamp, { description: 'The next five times, in UTC' }),
})

export const PipelineView = Type.Object({
  id: Uuid,
  name: Type.String(),
  schedule: Nullable(Type.String()),
  timezone: Nullable(Type.String()),
  enabled: Type.Boolean(),
  domain_id: Nullable(Uuid),
  created_at: Timestamp,
})

export const ChangedPipeline = Type.Object({
  ...PipelineView.properties,
  notice: Type.Optional(Type.String({ description: 'Further consequences of the change; absent if there are none' })),
})

export const PipelineWithConfig = Type.Object({
  ...PipelineView.properties,
  config: Type.Unsafe<object>({
    title: 'PipelineConfig',
    type: 'object',
    additionalProperties: true,
    description:
      'As it was given; secrets are shown as ******** to callers without write permission, and to everyone if SECRETS is write_only',
  }),
  updated_at: Nullable(Timestamp),
})

export const MaskedQuery = Type.Object({
  masked: Type.Optional(
    Type.Boolean({
      description: 'Show secrets as ******** even if you may read them, for what only shows or tries it',
    }),
  ),
})

export const PipelineListItem = Type.Object({
  id: Uuid,
  name: Type.String(),
  schedule: Nullable(Type.String()),
  enabled: Type.Boolean(),
  domain_id: Nullable(Uuid),
  domain_name: Nullable(Type.String()),
  source_name: Nullable(Type.String({ description: 'The source connector' })),
  saved_source_id: Nullable(Uuid),
  stream: Type.String(),
  destination_name: Nullable(Type.String({ description: 'The destination connector' })),
  saved_destination_id: Nullable(Uuid),
  next_run_at: Nullable(Timestamp),
  last_run_status: Nullable(Type.Enum([...RUN_STATUSES])),
  last_run_at: Nullable(Timestamp),
  created_at: Timestamp,
})

export const PipelineQuery = Type.Object({
  ...Paging,
  domain_id: Type.Optional(Uuid),
  status: Type.Optional(Type.Enum([...RUN_STATUSES], { description: 'Of the last run' })),
  last_run_status: Type.Optional(Type.Enum([...RUN_STATUSES], { description: 'The same as status', deprecated: true })),
  source: Type.Optional(Type.String({ maxLength: 200, description: 'The name of the source connector' })),
  destination: Type.Optional(Type.String({ maxLength: 200, description: 'The name of the destination connector' })),
  enabled: Type.Optional(Type.Boolean()),
  scheduled: Type.Optional(Type.Boolean({ description: 'Has a schedule' })),
  q: Type.Optional(Type.String({ maxLength: 200, description: 'Part of the name, case-insensitive' })),
  search: Type.Optional(Type.String({ maxLength: 200, description: 'The same as q', deprecated: true })),
  sort: Type.Enum([...PIPELINE_SORTS], {
    default: '-created_at',
    description:
      'With a leading minus: descending. Pipelines that never ran have the oldest last run, those without a next run the latest',
  }),
})

const Cursor = Type.Unsafe<import('../../json/json.ts').Json>({
  description: 'What it looks like depends on the source; docs/incremental.md has examples',
})
export const WriteState = Type.Object({ cursor: Cursor })
export const StateView = Type.Object({ cursor: Cursor, updated_at: Nullable(Timestamp) })

export const SchemaView = Type.Object({
  columns: Type.Array(
    Type.Object({
      name: Type.String(),
      type: Type.String({
        description: 'A neutral type: int64, decimal(10,2), timestamptz, text[] …',
      }),
      native_type: Nullable(Type.String({ description: "The destination's own name for it" })),
    }),
  ),
  changes: Type.Array(Type.Unsafe<import('../../json/json.ts').Json>({})),
  updated_at: Nullable(Timestamp),
})
