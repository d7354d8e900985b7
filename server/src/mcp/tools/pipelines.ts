import { UsageError } from '../../errors.ts'
import { Type } from '../../schema.ts'
import { type Ask, withQuery } from '../ask.ts'
import { findPipeline, PipelineRef } from '../find.ts'
import { defineTool, inputOf } from '../tool.ts'

/** Secrets are masked, also for a key that may read them. */
const readPipeline = (ask: Ask, id: string) =>
  ask<{ config: unknown }>('GET', withQuery(`/api/pipelines/${id}`, { masked: true }))

const describePipeline = defineTool({
  name: 'describe_pipeline',
  title: 'Describe a pipeline',
  description:
    'A pipeline with its last runs, its schedule, the cursor that the next run continues from, its columns and what changed in them, and its config. Secrets in the config are ********.',
  kind: 'reads',
  input: inputOf({ pipeline: PipelineRef }),
  run: async ({ ask }, { pipeline }) => {
    const id = await findPipeline(ask, pipeline)
    const [{ config, ...fields }, last_runs, state, schema] = await Promise.all([
      readPipeline(ask, id),
      ask('GET', withQuery(`/api/pipelines/${id}/runs`, { limit: 5 })),
      ask('GET', `/api/pipelines/${id}/state`),
      ask('GET', `/api/pipelines/${id}/schema`),
    ])
    return { ...fields, last_runs, state, config, schema }
  },
})

const previewPipeline = defineTool({
  name: 'preview_pipeline',
  title: 'Preview a pipeline',
  description:
    'Reads the first records of a source and says what a run would change in the destination, without loading anything. Give `pipeline` for one as it is, `config` for one that does not exist yet, or both: then ******** in the config stands for the stored secrets of the pipeline. To try a manifest, use the source `manifest`.',
  kind: 'tries',
  input: inputOf({
    pipeline: Type.Optional(PipelineRef),
    config: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        additionalProperties: true,
        description:
          'source {name, stream, config} and destination {name, config}, and optionally sync and columns. saved_connector_id in the place of name uses a connection',
      }),
    ),
    max_records: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
  }),
  run: async ({ ask }, { pipeline, config: given, max_records = 10 }) => {
    if (pipeline === undefined && given === undefined) throw new UsageError('Give pipeline, config or both')
    const pipeline_id = pipeline === undefined ? undefined : await findPipeline(ask, pipeline)
    const config = given ?? (await readPipeline(ask, pipeline_id!)).config
    return ask('POST', '/api/pipelines/preview', { config, max_records, ...(pipeline_id && { pipeline_id }) })
  },
})

export const pipelineTools = [describePipeline, previewPipeline]
