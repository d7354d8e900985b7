import { MAX_SHOWN, MAX_SHOWN_BYTES } from '../../connections/shown-streams.ts'
import { Type } from '../../schema.ts'
import { AnyObject, Description, Name, Nullable, Problem, Timestamp, Uuid } from './common.ts'

const info = {
  name: Type.String(),
  display_name: Type.String(),
  description: Type.String(),
  example_config: AnyObject('A whole source or destination object that works when pasted into a pipeline'),
  config_schema: AnyObject(
    'JSON Schema of its settings; `secret` marks secrets, `override` what a pipeline may change. `truncated` is true where a custom source has more settings than are shown',
  ),
  capabilities: AnyObject('What it can do'),
}

/** Of a source in a list. */
export const ShownStreams = {
  streams: Type.Array(Type.String(), {
    description: `\`dynamic\`: they come from the system itself. At most the first ${MAX_SHOWN}, and ${MAX_SHOWN_BYTES / 1024} KB, of a custom source; a single read returns all`,
  }),
  stream_count: Nullable(
    Type.Integer({ description: 'The total number, which may be more than `streams` shows. Null: dynamic' }),
  ),
}

export const SourceInfo = Type.Object({
  ...info,
  ...ShownStreams,
  auth_types: Type.Array(Type.String()),
  language: Nullable(
    Type.Enum(['python', 'manifest'], {
      description: 'Of a source that your organization has written; null: built in',
    }),
  ),
})

export const DestinationInfo = Type.Object(info)

export const PipelineOfSecrets = Type.Optional(
  Type.Unsafe<string>({
    ...Uuid,
    description: 'A pipeline that is being edited: a secret sent as ******** is the one that it has stored',
  }),
)

const Party = AnyObject('Inline (name, config …) or saved (saved_connector_id), as in a pipeline’s config')

export const Probe = Type.Object(
  {
    source: Type.Optional(Party),
    destination: Type.Optional(Party),
    pipeline_id: PipelineOfSecrets,
    stream: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 500,
        description:
          'Also check this stream: whether it exists and may be read; for a destination whether its table may be written. It may also be given in the source',
      }),
    ),
  },
  { description: 'Either a source or a destination' },
)

export const StreamsProbe = Type.Object(
  {
    ...Probe.properties,
    describe: Type.Optional(Type.Boolean({ description: 'Also describe the streams' })),
    stream: Type.Optional(
      Type.String({ minLength: 1, maxLength: 1000, description: 'The stream to describe; by default the first 100' }),
    ),
  },
  { description: 'A source' },
)

export const CheckResult = Type.Object({ success: Type.Boolean(), message: Type.String() })

export const StreamsResult = Type.Object({
  success: Type.Boolean(),
  message: Type.String(),
  streams: Type.Array(Type.String()),
  descriptions: Type.Optional(
    Type.Array(
      Type.Object({
        stream: Type.String(),
        columns: Nullable(
          Type.Array(
            Type.Object({
              name: Type.String(),
              type: Type.String({ description: 'A neutral type: int64, decimal(10,2), text[] …' }),
              native_type: Nullable(Type.String({ description: "The source's own name for it" })),
              nullable: Nullable(Type.Boolean()),
            }),
            { description: 'null: only reading would tell' },
          ),
        ),
        primary_key: Type.Array(Type.String()),
        cursor_fields: Type.Array(Type.String(), {
          description: 'Columns that an incremental read could use as cursor, best first',
        }),
        estimated_rows: Nullable(Type.Integer()),
      }),
      { description: 'Only with `describe`' },
    ),
  ),
})

export const DeleteQuery = Type.Object({
  if_unused: Type.Boolean({ default: false, description: 'Delete it only if no pipeline uses it; otherwise 409' }),
})

const Users = Type.Array(Type.Object({ id: Uuid, name: Type.String() }))

export const InUse = Type.Object(
  {
    ...Problem.properties,
    used_by: Type.Object({
      pipelines: { ...Users, description: 'The newest 20 of those that the caller may see' },
      pipeline_count: Type.Integer({ description: 'The total number, counted to 10000 at most' }),
      saved_sources: { ...Users, description: 'For a custom source: the newest 20 saved sources that use it' },
      saved_source_count: Type.Integer(),
    }),
  },
  { description: 'It is in use, and `if_unused` was given' },
)

export const CreateSavedConnector = Type.Object({
  name: Name,
  connector_name: Type.String({ minLength: 1, maxLength: 200 }),
  config: AnyObject('A source: authentication and config. A destination: its settings'),
  description: Type.Optional(Nullable(Description)),
})

export const UpdateSavedConnector = Type.Object({
  name: Type.Optional(Name),
  config: Type.Optional(
    AnyObject(
      'Replaces the stored one; a secret sent as ******** keeps its stored value. If SECRETS is write_only, changing the address needs the secrets themselves',
    ),
  ),
  description: Type.Optional(Nullable(Description)),
})

export const SavedConnectorView = Type.Object({
  id: Uuid,
  name: Type.String(),
  type: Type.Enum(['source', 'destination']),
  connector_name: Type.String(),
  description: Nullable(Type.String()),
  created_at: Timestamp,
})

export const SavedConnectorWithConfig = Type.Object({
  ...SavedConnectorView.properties,
  config: AnyObject(
    'Secrets are shown as ******** to callers without write permission, and to everyone if SECRETS is write_only',
  ),
})
