import { PIPELINE_ACTIONS } from '../../runs/pipeline-actions.ts'
import { Type } from '../../schema.ts'
import { Nullable, Uuid } from './common.ts'

export const PipelineActions = Type.Object({
  action: Type.Enum([...PIPELINE_ACTIONS]),
  ids: Type.Array(Uuid, { minItems: 1, maxItems: 1000, uniqueItems: true }),
  domain_id: Type.Optional(
    Nullable(Type.String({ format: 'uuid', description: 'With `move`: the domain, or null for none' })),
  ),
})

export const PipelineActionResult = Type.Object({
  id: Uuid,
  ok: Type.Boolean(),
  detail: Type.String({ description: 'What was done, or why not' }),
})
