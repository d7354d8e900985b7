/** A span for every request. Registered only where OTEL_EXPORTER_OTLP_ENDPOINT is set. */
import { readTraceParent, type Traces } from '../traces.ts'
import type { App } from './app-type.ts'

export function traceRequests(app: App, traces: Traces): void {
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url
    const ended = Date.now()
    traces.add({
      name: route === undefined ? request.method : `${request.method} ${route}`,
      kind: 'server',
      started: ended - reply.elapsedTime,
      ended,
      failed: reply.statusCode >= 500,
      attributes: {
        'http.request.method': request.method,
        ...(route !== undefined && { 'http.route': route }),
        'http.response.status_code': reply.statusCode,
        'sluice.request_id': request.id,
      },
      ...readTraceParent(request.headers.traceparent),
    })
  })
}
