import { Type } from 'typebox'
import { MOST_SHOWN, MOST_SHOWN_BYTES } from '../../connections/shown-streams.ts'
import { Description, Name, Nullable, Problem, Timestamp, Uuid } from './common.ts'

const AnyObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description })

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
    description: `\`dynamic\`: they come from the system itself. At most the first ${MOST_SHOWN}, and ${MOST_SHOWN_BYTES / 1024} KB, of a custom source; reading it alone gives all`,
  }),
  stream_count: Nullable(
    Type.Integer({ description: 'How many there are: more than `streams` holds where that was cut. Null: dynamic' }),
  ),
}

export const SourceInfo = Type.Object({
  ...info,
  ...ShownStreams,
  auth_types: Type.Array(Type.String()),
})

export const DestinationInfo = Type.Object(info)

const Party = AnyObject('Inline (name, config …) or saved (saved_connector_id), as in a pipeline’s config')

export const Probe = Type.Object(
  {
    source: Type.Optional(Party),
    destination: Type.Optional(Party),
    stream: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 500,
        description:
          'Also try this one: is it there, and may it be read? Of a destination: may its table be written? It may stand in the source as well',
      }),
    ),
  },
  { description: 'Either a source or a destination' },
)

export const StreamsProbe = Type.Object(
  {
    ...Probe.properties,
    describe: Type.Optional(Type.Boolean({ description: 'Also tell what the streams look like' })),
    stream: Type.Optional(
      Type.String({ minLength: 1, maxLength: 1000, description: 'The one to describe; else the first 100 of them' }),
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
              type: Type.String({ description: 'A type that belongs to no system: int64, decimal(10,2), text[] …' }),
              native_type: Nullable(Type.String({ description: 'What the source itself calls it' })),
              nullable: Nullable(Type.Boolean()),
            }),
            { description: 'null: only reading would tell' },
          ),
        ),
        primary_key: Type.Array(Type.String()),
        cursor_fields: Type.Array(Type.String(), {
          description: 'Columns by which an incremental read could go on, the best first',
        }),
        estimated_rows: Nullable(Type.Integer()),
      }),
      { description: 'Only with `describe`' },
    ),
  ),
})

export const DeleteQuery = Type.Object({
  if_unused: Type.Boolean({ default: false, description: 'Delete it only where no pipeline uses it; else 409' }),
})

const Users = Type.Array(Type.Object({ id: Uuid, name: Type.String() }))

export const InUse = Type.Object(
  {
    ...Problem.properties,
    used_by: Type.Object({
      pipelines: { ...Users, description: 'The newest 20 of those that the caller may see' },
      pipeline_count: Type.Integer({ description: 'How many there are in all, counted to 10000 at most' }),
      saved_sources: { ...Users, description: 'Of a custom source: the newest 20 saved sources that use it' },
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
      'Replaces the stored one; a secret sent as ******** stays as stored. Where SECRETS is write_only a change of the address needs the secrets themselves',
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
  config: AnyObject('Secrets read ******** for those who may not write, and for all where SECRETS is write_only'),
})
