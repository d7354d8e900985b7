import { isReady } from '../../readiness.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { createTokenCheck } from '../metrics-token.ts'

/** Each further field is the state of one part of the service, shown only with METRICS_TOKEN. */
const Ready = Type.Object({ status: Type.Enum(['ready', 'not ready']) }, { additionalProperties: Type.String() })

export function healthRoutes(app: App, services: Services): void {
  const bringsToken = createTokenCheck(services.config.METRICS_TOKEN)

  app.get(
    '/healthz',
    {
      logLevel: 'silent',
      schema: {
        tags: ['Health'],
        summary: 'The process is running',
        security: [],
        response: { 200: Type.Object({ status: Type.String() }) },
      },
    },
    () => ({ status: 'ok' }),
  )

  app.get(
    '/readyz',
    {
      logLevel: 'silent',
      schema: {
        tags: ['Health'],
        summary: 'Database, blob store and queue answer',
        description: 'With METRICS_TOKEN as `Authorization: Bearer …` the response also has the state of each part.',
        security: [],
        response: { 200: Ready, 503: Ready },
      },
    },
    async (request, reply) => {
      const state = await services.readiness()
      const ready = isReady(state)
      const status = ready ? 'ready' : 'not ready'
      return reply.code(ready ? 200 : 503).send(bringsToken(request) ? { status, ...state } : { status })
    },
  )
}
