import { changeOrganization } from '../../changes/changes.ts'
import { exportOrganization } from '../../changes/export.ts'
import { describeFiles, SCHEMA_NAMES } from '../../changes/file-schemas.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { ChangesRefused, ChangesRequest, ChangesResult, ExportQuery, ExportResult } from '../schemas/changes.ts'
import { problems } from '../schemas/common.ts'

/** A whole organization. */
const bodyLimit = 16 * 1024 * 1024

const tags = ['As code']

export function changeRoutes(app: App, services: Services): void {
  app.post(
    '/api/changes',
    {
      bodyLimit,
      // Each change asks for its own permission, in its own domain.
      config: { access: 'pipelines:read' },
      schema: {
        tags,
        summary: 'Plan changes of the whole organization, or apply them',
        description:
          'With `dry_run` it answers what would be changed, and every problem. Otherwise all of it is applied in one transaction, or nothing. Each change needs the permission that the same change by itself needs. The body may have 16 MB.',
        body: ChangesRequest,
        response: {
          200: ChangesResult,
          ...problems('unauthenticated', 'conflict', 'too_many_requests'),
          400: ChangesRefused,
          403: ChangesRefused,
        },
      },
    },
    (request, reply) => changeOrganization(services, actorOf(request), request.body, signalOf(reply)),
  )

  app.get(
    '/api/changes/export',
    {
      config: { access: 'pipelines:read' },
      schema: {
        tags,
        summary: 'The organization as objects for files',
        description:
          // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how a reference is written
          'Of one moment, in a fixed order, without ids. Secrets are references such as `${SHOP_PASSWORD}`; a text that has `${` itself has `$${` instead.',
        querystring: ExportQuery,
        response: { 200: ExportResult, ...problems('unauthenticated', 'forbidden', 'not_found', 'conflict') },
      },
    },
    (request) => exportOrganization(services, actorOf(request), request.query),
  )

  const schemas = describeFiles()
  for (const name of SCHEMA_NAMES) {
    const text = JSON.stringify(schemas[name])
    app.get(`/schemas/${name}.json`, { schema: { hide: true } }, (_request, reply) =>
      reply.type('application/schema+json').header('cache-control', 'public, max-age=3600').send(text),
    )
  }
}
