import { DEFAULT_RECORDS } from '../../connections/previews.ts'
import { Type } from '../../schema.ts'
import { AnyObject, Description, Name, Nullable, patternOf, Timestamp, Uuid } from './common.ts'
import { ShownStreams } from './connectors.ts'

const Code = Type.String({ minLength: 1, description: 'Python; at most 512 KB' })
const Authentication = Nullable(AnyObject('`type` and `params`; none where it is absent'))

export const ValidateSource = Type.Object({ code: Type.String({ description: 'Python; at most 512 KB' }) })

export const CreateCustomSource = Type.Object({
  name: Name,
  source_name: Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: patternOf(
      '^[A-Za-z][A-Za-z0-9_.-]*$',
      'must begin with a letter and hold only letters, digits, _ . and -',
    ),
    description: 'Letters, digits, _ . and -; unique in the organization',
  }),
  code: Code,
  description: Type.Optional(Nullable(Description)),
})

export const UpdateCustomSource = Type.Object({
  name: Type.Optional(Name),
  code: Type.Optional(Code),
  description: Type.Optional(Nullable(Description)),
})

const item = {
  id: Uuid,
  name: Type.String(),
  source_name: Type.String(),
  streams: Type.Array(Type.String()),
  description: Nullable(Type.String()),
  created_at: Timestamp,
}

/** Of a custom source or manifest in a list. */
export const SourceUse = {
  version: Type.Integer({ description: 'The current one' }),
  changed_at: Timestamp,
  pipeline_count: Type.Integer({
    description:
      'How many pipelines name it as their source, counted to 10000 at most; those that use it through a saved source are not counted',
  }),
}

export const CustomSourceItem = Type.Object({ ...item, ...ShownStreams, ...SourceUse })
export const CustomSourceCreated = Type.Object({ ...item, code: Type.String() })
export const CustomSourceView = Type.Object({ ...item, code: Type.String(), updated_at: Nullable(Timestamp) })

const version = {
  version: Type.Integer(),
  streams: Type.Array(Type.String()),
  created_by_name: Nullable(Type.String()),
  created_at: Timestamp,
}
export const VersionItem = Type.Object({ ...version, ...ShownStreams })
export const VersionView = Type.Object({ ...version, code: Type.String() })
export const VersionParams = Type.Object({ id: Uuid, version: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) })

export const PreviewSource = Type.Object({
  source_id: Type.Optional(Nullable(Uuid)),
  code: Type.Optional(Nullable(Code)),
  stream: Type.String({ minLength: 1, maxLength: 500 }),
  authentication: Type.Optional(Authentication),
  config: Type.Optional(Nullable(AnyObject('Settings of the source'))),
  max_records: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: DEFAULT_RECORDS })),
})

export const CheckSource = Nullable(
  Type.Object({
    code: Type.Optional(Nullable(Code)),
    authentication: Type.Optional(Authentication),
    config: Type.Optional(Nullable(AnyObject('Settings of the source'))),
  }),
)

export const Finding = Type.Object({
  line: Type.Integer({ description: 'From 1' }),
  column: Type.Integer({ description: 'From 0' }),
  message: Type.String(),
  severity: Type.Enum(['error', 'warning']),
})

export const ValidationResult = Type.Object({
  valid: Type.Boolean(),
  errors: Type.Array(Finding),
  warnings: Type.Array(Finding),
  extracted_source_name: Nullable(Type.String()),
  extracted_streams: Nullable(Type.Array(Type.String())),
  settings_schema: Nullable(
    AnyObject('The JSON Schema of its settings, from the type hints; null where the code is not valid'),
  ),
  extracted_schema: Type.Object({
    config_class_name: Nullable(Type.String()),
    config_fields: Type.Array(
      Type.Object({ name: Type.String(), type_hint: Nullable(Type.String()), required: Type.Boolean() }),
    ),
    auth_class_name: Nullable(Type.String()),
    auth_type: Nullable(Type.String()),
  }),
})

export const PreviewRecord = Type.Object({ id: Type.String(), data: AnyObject('The record') })

export const PreviewResult = Type.Object({
  success: Type.Boolean(),
  records: Type.Array(PreviewRecord, { description: 'Empty where the preview failed' }),
  partial_records: Type.Array(PreviewRecord, {
    description: 'What a preview that failed had yielded until then, at most max_records; empty where it succeeded',
  }),
  total_count: Type.Integer(),
  execution_time_ms: Type.Integer(),
  error: Nullable(Type.String()),
  logs: Type.Array(Type.String()),
})
