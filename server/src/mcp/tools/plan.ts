import { Type } from '../../schema.ts'
import { defineTool, inputOf } from '../tool.ts'

const listOf = (description: string) =>
  Type.Optional(
    Type.Array(Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true }), {
      maxItems: 5000,
      description,
    }),
  )

const planChanges = defineTool({
  name: 'plan_changes',
  title: 'Plan changes',
  description:
    'Says what would change if the organization had these objects, field by field, what that does to state and tables, and every problem. Objects refer to each other by name; in the config of a pipeline, `connection` is the name of a saved source or destination. Nothing is changed: whoever wants it applies files with `sluice apply`.',
  kind: 'reads',
  input: inputOf({
    objects: Type.Object(
      {
        domains: listOf('name, description, color'),
        sources: listOf('source_name, name, code, language (python or manifest)'),
        connections: listOf('name, type (source or destination), connector_name, config'),
        pipelines: listOf('name, config, domain, schedule, timezone, enabled'),
      },
      { additionalProperties: false },
    ),
    prune: Type.Optional(
      Type.Boolean({ default: false, description: 'Also what would be deleted, because no object describes it' }),
    ),
    domain: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Only this domain, by its name' })),
  }),
  run: ({ ask }, input) => ask('POST', '/api/changes', { ...input, dry_run: true }),
})

export const planTools = [planChanges]
