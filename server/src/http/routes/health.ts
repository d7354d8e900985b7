import { Type } from 'typebox'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'

const Ready = Type.Object({
  status: Type.Enum(['ready', 'not ready']),
  database: Type.String(),
  queue: Type.String(),
  sandbox: Type.String(),
})

export function healthRoutes(app: App, services: Services): void {
  app.get(
    '/healthz',
    {
      logLevel: 'silent',
      schema: {
        tags: ['Health'],
        summary: 'The process lives',
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
        summary: 'Database and queue answer',
        security: [],
        response: { 200: Ready, 503: Ready },
      },
    },
    async (_request, reply) => {
      const state = await services.readiness()
      const ready = state.database === 'ok' && state.queue === 'ok'
      return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not ready', ...state })
    },
  )
}
