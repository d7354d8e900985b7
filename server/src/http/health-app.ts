/** What a process without the API answers on HEALTH_PORT: how it is. The routes are those of the API. */
import fastify, { type FastifyBaseLogger, LogController } from 'fastify'
import type { Services } from '../services.ts'
import type { App } from './app-type.ts'
import { answerBrokenRequest, handleError } from './error-handler.ts'
import { healthRoutes } from './routes/health.ts'

const REQUEST_TIMEOUT_MS = 10_000
const BODY_LIMIT = 1024

export async function createHealthApp(services: Services): Promise<App> {
  const app: App = fastify({
    loggerInstance: services.log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT,
    forceCloseConnections: 'idle',
    requestTimeout: REQUEST_TIMEOUT_MS,
    clientErrorHandler: answerBrokenRequest,
  })
  app.setErrorHandler(handleError)
  app.setNotFoundHandler((_request, reply) => {
    void reply.code(404).send({ detail: 'This process answers GET /healthz, /readyz and /metrics alone' })
  })
  const { METRICS_TOKEN } = services.config
  if (METRICS_TOKEN) await (await import('./routes/metrics.ts')).metricsRoutes(app, services, METRICS_TOKEN)
  healthRoutes(app, services)
  await app.ready()
  return app
}
