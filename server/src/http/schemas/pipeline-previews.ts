import { Type } from '../../schema.ts'
import { Nullable } from './common.ts'
import { PipelineOfSecrets } from './connectors.ts'
import { Config } from './pipelines.ts'

export const PreviewPipeline = Type.Object({
  config: Config,
  max_records: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: '10 unless given' })),
  pipeline_id: PipelineOfSecrets,
})

const TargetColumn = Type.Object({
  name: Type.String({ description: 'In the destination' }),
  type: Type.String({ description: 'A column type of the platform' }),
  native_type: Nullable(Type.String({ description: 'The type in the destination, if it has its own' })),
})

export const PipelinePreview = Type.Object({
  success: Type.Boolean({ description: 'False where the source could not be read; `error` says why' }),
  records: Type.Array(Type.Object({}, { additionalProperties: true }), {
    description: 'The first records after the choice of columns',
  }),
  columns: Type.Array(TargetColumn, { description: 'The columns that the records are written to' }),
  changes: Type.Array(Type.String(), { description: 'What a run would change there, such as `adds column note text`' }),
  problems: Type.Array(Type.String(), { description: 'What would make a run fail, or lose something' }),
  error: Nullable(Type.String()),
})
