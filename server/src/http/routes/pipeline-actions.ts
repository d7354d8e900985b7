import { actOnPipelines } from '../../runs/pipeline-actions.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { problems } from '../schemas/common.ts'
import { PipelineActionResult, PipelineActions } from '../schemas/pipeline-actions.ts'

export function pipelineActionRoutes(app: App, services: Services): void {
  app.post(
    '/api/pipelines/actions',
    {
      // Each pipeline asks for the permission of the action in its own domain.
      config: { access: 'pipelines:read' },
      schema: {
        tags: ['Pipelines'],
        summary: 'Run, enable, disable, delete or move many pipelines',
        description:
          'Each pipeline is a request of its own: it needs the permission of the action, and one that is refused does not stop the others. The results are in the order of the ids.',
        body: PipelineActions,
        response: {
          200: Type.Array(PipelineActionResult),
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found'),
        },
      },
    },
    (request) =>
      actOnPipelines(services, actorOf(request), request.body, (error) =>
        request.log.error({ err: error }, 'an action on a pipeline failed'),
      ),
  )
}
