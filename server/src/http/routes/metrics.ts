/** GET /metrics for Prometheus. Registered only where METRICS_TOKEN is set, before the routes whose time it takes. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { AppError } from '../../errors.ts'
import { createMetrics } from '../../metrics.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'

/** Addresses without a route are counted as one: they are whatever somebody asks for. */
const NO_ROUTE = 'none'

export async function metricsRoutes(app: App, services: Services, token: string): Promise<void> {
  const metrics = await createMetrics(services)
  const expected = digest(token)

  app.addHook('onResponse', async (request, reply) => {
    metrics.observeRequest({
      method: request.method,
      route: request.routeOptions.url ?? NO_ROUTE,
      status: reply.statusCode,
      seconds: reply.elapsedTime / 1000,
    })
  })

  app.get('/metrics', { logLevel: 'silent', schema: { hide: true } }, async (request, reply) => {
    const given = /^Bearer +(.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    if (!timingSafeEqual(digest(given), expected))
      throw new AppError('unauthenticated', 'Send METRICS_TOKEN as "Authorization: Bearer …"', {
        'WWW-Authenticate': 'Bearer',
      })
    const { content_type, text } = await metrics.render()
    return reply.type(content_type).send(text)
  })
}

/** Of equal length whatever was given, so that the comparison can take the same time for all. */
const digest = (text: string) => createHash('sha256').update(text).digest()
