import type { FastifyReply } from 'fastify'
import { type PipelinePreviewResult, previewPipeline } from '../../pipelines/preview.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { problems } from '../schemas/common.ts'
import { PipelinePreview, PreviewPipeline } from '../schemas/pipeline-previews.ts'

export function pipelinePreviewRoutes(app: App, services: Services): void {
  app.post(
    '/api/pipelines/preview',
    {
      config: { access: 'pipelines:write' },
      schema: {
        tags: ['Pipelines'],
        summary: 'Try a pipeline without loading anything',
        description:
          'Reads the first records of its source, from the beginning, and looks at the destination without changing anything there. It ends after 30 seconds.',
        body: PreviewPipeline,
        response: {
          200: PipelinePreview,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) =>
      sendPreview(reply, await previewPipeline(services, actorOf(request), request.body, signalOf(reply))),
  )
}

/** The records go out as they came, with every digit of their numbers. */
function sendPreview(reply: FastifyReply, { records, ...rest }: PipelinePreviewResult): never {
  const head = Buffer.from(`${JSON.stringify(rest).slice(0, -1)},"records":`)
  const text = Buffer.concat([head, records, Buffer.from('}')])
  return reply.header('Content-Type', 'application/json; charset=utf-8').send(text) as never
}
