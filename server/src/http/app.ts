/**
 * The HTTP application. It never listens by itself: cli/roles.ts does, and tests inject requests. Routes are listed
 * explicitly; each declares its schemas and the access it needs, and one without access is refused at start.
 */
import { randomUUID } from 'node:crypto'
import fastify, { type FastifyBaseLogger, LogController } from 'fastify'
import type { Services } from '../services.ts'
import type { App } from './app-type.ts'
import { authenticate } from './authenticate.ts'
import { openConsole } from './console.ts'
import { answerBrokenRequest, handleError, handleNotFound } from './error-handler.ts'
import { createEventStreams } from './event-streams.ts'
import { isOfApi, setHeaders } from './headers.ts'
import { acceptJsonBodies } from './json-body.ts'
import { closeSchemas } from './known-fields.ts'
import { answerOtherMethods } from './methods.ts'
import { describeApi } from './openapi.ts'
import { logRequests, makeRequestLogger } from './request-log.ts'
import { alertRoutes } from './routes/alerts.ts'
import { apiKeyRoutes } from './routes/api-keys.ts'
import { auditRoutes } from './routes/audit.ts'
import { authRoutes } from './routes/auth.ts'
import { changeRoutes } from './routes/changes.ts'
import { connectorRoutes } from './routes/connectors.ts'
import { customSourceRoutes } from './routes/custom-sources.ts'
import { domainRoleRoutes } from './routes/domain-roles.ts'
import { domainRoutes } from './routes/domains.ts'
import { healthRoutes } from './routes/health.ts'
import { invitationRoutes } from './routes/invitations.ts'
import { manifestRoutes } from './routes/manifests.ts'
import { mcpRoutes } from './routes/mcp.ts'
import { organizationRoutes } from './routes/organization.ts'
import { outputQueryRoutes } from './routes/output-queries.ts'
import { overviewRoutes } from './routes/overview.ts'
import { pipelineActionRoutes } from './routes/pipeline-actions.ts'
import { pipelinePreviewRoutes } from './routes/pipeline-previews.ts'
import { pipelineRoutes } from './routes/pipelines.ts'
import { providerRoutes } from './routes/provider.ts'
import { runRoutes } from './routes/runs.ts'
import { savedConnectorRoutes } from './routes/saved-connectors.ts'
import { userRoutes } from './routes/users.ts'
import { versionRoutes } from './routes/version.ts'
import { webhookRoutes } from './routes/webhooks.ts'
import { compileSerializer } from './serializers.ts'
import { traceRequests } from './trace-requests.ts'
import { acceptUnchangedFields } from './unchanged-fields.ts'
import { compileValidator } from './validators.ts'

const BODY_LIMIT = 1024 * 1024
const REQUEST_ID = /^[\w.:-]{1,64}$/

export async function createApp(services: Services): Promise<App> {
  const app: App = fastify({
    loggerInstance: services.log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    childLoggerFactory: makeRequestLogger,
    bodyLimit: BODY_LIMIT,
    trustProxy: services.config.TRUSTED_PROXIES.length > 0 ? services.config.TRUSTED_PROXIES : false,
    requestIdHeader: false,
    genReqId: (request) => {
      const given = request.headers['x-request-id']
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID()
    },
    routerOptions: { maxParamLength: 200, ignoreTrailingSlash: false },
    forceCloseConnections: 'idle',
    requestTimeout: 60_000,
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (error, request, reply) => handleError(error, request, reply as never),
  })
  app.setValidatorCompiler(compileValidator)
  app.setSerializerCompiler(compileSerializer)
  app.setErrorHandler(handleError)
  const pages = openConsole(services.config)
  app.setNotFoundHandler((request, reply) => {
    if (!pages?.answer(request, reply)) return handleNotFound(request, reply)
  })
  app.decorateRequest('actor', null)
  app.decorate('routeList', [])
  app.decorate('eventStreams', createEventStreams())
  app.addHook('preClose', async () => app.eventStreams.end())
  acceptJsonBodies(app)
  guardRoutes(app)
  closeSchemas(app)
  acceptUnchangedFields(app)
  logRequests(app)
  setHeaders(app, services)
  answerOtherMethods(app)
  app.addHook('onRequest', (request) => authenticate(services, request))
  const { METRICS_TOKEN } = services.config
  if (METRICS_TOKEN) await (await import('./routes/metrics.ts')).metricsRoutes(app, services, METRICS_TOKEN)
  if (services.traces) traceRequests(app, services.traces)
  await describeApi(app)

  await app.register(async (scope) => {
    const routes = scope as App
    healthRoutes(routes, services)
    versionRoutes(routes)
    authRoutes(routes, services)
    providerRoutes(routes, services)
    organizationRoutes(routes, services)
    runRoutes(routes, services)
    overviewRoutes(routes, services)
    outputQueryRoutes(routes, services)
    userRoutes(routes, services)
    invitationRoutes(routes, services)
    domainRoleRoutes(routes, services)
    domainRoutes(routes, services)
    apiKeyRoutes(routes, services)
    auditRoutes(routes, services)
    webhookRoutes(routes, services)
    alertRoutes(routes, services)
    connectorRoutes(routes, services)
    savedConnectorRoutes(routes, services)
    customSourceRoutes(routes, services)
    manifestRoutes(routes, services)
    pipelineRoutes(routes, services)
    pipelinePreviewRoutes(routes, services)
    pipelineActionRoutes(routes, services)
    changeRoutes(routes, services)
    mcpRoutes(routes, services)
  })
  await app.ready()
  return app
}

/** A route that forgot to say who may call it does not start. */
function guardRoutes(app: App): void {
  app.addHook('onRoute', (route) => {
    if (!isOfApi(route.url) || route.method === 'HEAD') return
    const access = route.config?.access
    if (access === undefined) throw new Error(`${String(route.method)} ${route.url} does not declare its access`)
    for (const method of [route.method].flat())
      if (method !== 'HEAD') app.routeList.push({ method, url: route.url, access })
  })
}
