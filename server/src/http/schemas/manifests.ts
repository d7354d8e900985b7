import { Type } from '../../schema.ts'
import { Description, Name, Nullable, patternOf, Timestamp, Uuid } from './common.ts'
import { ShownStreams } from './connectors.ts'
import { Finding, SourceUse } from './custom-sources.ts'

const Yaml = Type.String({ minLength: 1, description: 'The YAML of a declarative manifest; at most 2 MB' })
const SettingsSchema = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: 'The JSON Schema of its settings: `spec.connection_specification`; secrets have `airbyte_secret`',
})

export const ValidateManifest = Type.Object({ manifest: Yaml })

export const CreateManifest = Type.Object({
  name: Name,
  source_name: Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: patternOf(
      '^[A-Za-z][A-Za-z0-9_.-]*$',
      'must begin with a letter and hold only letters, digits, _ . and -',
    ),
    description: 'Letters, digits, _ . and -; unique in the organization, also among custom sources',
  }),
  manifest: Yaml,
  description: Type.Optional(Nullable(Description)),
})

export const UpdateManifest = Type.Object({
  name: Type.Optional(Name),
  manifest: Type.Optional(Yaml),
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
const whole = { ...item, manifest: Type.String(), settings_schema: SettingsSchema }

export const ManifestItem = Type.Object({ ...item, ...ShownStreams, ...SourceUse })
export const ManifestCreated = Type.Object(whole)
export const ManifestView = Type.Object({ ...whole, updated_at: Nullable(Timestamp) })

const version = {
  version: Type.Integer(),
  streams: Type.Array(Type.String()),
  created_by_name: Nullable(Type.String()),
  created_at: Timestamp,
}
export const ManifestVersionItem = Type.Object({ ...version, ...ShownStreams })
export const ManifestVersionView = Type.Object({ ...version, manifest: Type.String() })

export const ManifestValidation = Type.Object({
  valid: Type.Boolean({ description: 'Whether at least one stream runs' }),
  runs: Type.Enum(['whole', 'part', 'no']),
  errors: Type.Array(Finding),
  warnings: Type.Array(Finding, { description: 'The streams that do not run, and why' }),
  extracted_streams: Nullable(Type.Array(Type.String())),
  settings_schema: Nullable(SettingsSchema),
})
