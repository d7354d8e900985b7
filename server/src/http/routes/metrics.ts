/** GET /metrics for Prometheus. Registered only if METRICS_TOKEN is set, before the routes that it measures. */
import { AppError } from '../../errors.ts'
import { createMetrics } from '../../metrics.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { createTokenCheck } from '../metrics-token.ts'

/** All unknown paths share one label, because clients can send any number of them. */
const NO_ROUTE = 'none'

export async function metricsRoutes(app: App, services: Services, token: string): Promise<void> {
  const metrics = await createMetrics(services)
  const bringsToken = createTokenCheck(token)

  app.addHook('onResponse', async (request, reply) => {
    metrics.observeRequest({
      method: request.method,
      route: request.routeOptions.url ?? NO_ROUTE,
      status: reply.statusCode,
      seconds: reply.elapsedTime / 1000,
    })
  })

  app.get('/metrics', { logLevel: 'silent', schema: { hide: true } }, async (request, reply) => {
    if (!bringsToken(request))
      throw new AppError('unauthenticated', 'Send METRICS_TOKEN as "Authorization: Bearer …"', {
        'WWW-Authenticate': 'Bearer',
      })
    const { content_type, text } = await metrics.render()
    return reply.type(content_type).send(text)
  })
}
