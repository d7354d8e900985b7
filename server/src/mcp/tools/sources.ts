import { Type } from '../../schema.ts'
import { Id } from '../find.ts'
import { defineTool, inputOf } from '../tool.ts'

const code = Type.String({ minLength: 1, maxLength: 512 * 1024, description: 'The Python code of a custom source' })
const anyObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description })

const describeSource = defineTool({
  name: 'describe_source',
  title: 'Describe a custom source',
  description: 'A source that the organization has written itself, with its code, by the id that list_sources shows.',
  kind: 'reads',
  limits: { longestText: 50_000 },
  input: inputOf({ source: Id('The id of the source'), language: Type.Enum(['python', 'manifest']) }),
  run: ({ ask }, { source, language }) =>
    ask('GET', language === 'python' ? `/api/custom-sources/${source}` : `/api/manifests/${source}`),
})

const validateSource = defineTool({
  name: 'validate_source',
  title: 'Validate the code of a source',
  description:
    'Says what is wrong with the Python code of a custom source, by line and column, and which streams and settings it has. Nothing is saved.',
  kind: 'reads',
  input: inputOf({ code }),
  run: ({ ask }, input) => ask('POST', '/api/custom-sources/validate', input),
})

const previewSource = defineTool({
  name: 'preview_source',
  title: 'Preview the code of a source',
  description:
    'Runs a custom source in the sandbox and answers with its first records and its log: the code given, a saved source, or the code in the place of a saved one. Nothing is saved.',
  kind: 'tries',
  input: inputOf({
    code: Type.Optional(code),
    source_id: Type.Optional(Id('The id of a saved source')),
    stream: Type.String({ minLength: 1, maxLength: 500 }),
    config: Type.Optional(anyObject('Settings of the source')),
    authentication: Type.Optional(anyObject('`type` and `params`')),
    max_records: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
  }),
  run: ({ ask }, input) => ask('POST', '/api/custom-sources/preview', { max_records: 10, ...input }),
})

const validateManifest = defineTool({
  name: 'validate_manifest',
  title: 'Validate a manifest',
  description:
    'Says which streams of an Airbyte manifest run here and why others do not, by line and column. Nothing is saved. To read records with it, use preview_pipeline with the source `manifest`.',
  kind: 'reads',
  input: inputOf({ manifest: Type.String({ minLength: 1, maxLength: 1024 * 1024, description: 'YAML' }) }),
  run: ({ ask }, input) => ask('POST', '/api/manifests/validate', input),
})

export const sourceTools = [describeSource, validateSource, previewSource, validateManifest]
