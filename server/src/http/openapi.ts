/** The API's description at /api/openapi.json, made from the routes' schemas, and a browsable reference of it at /docs. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { VERSION } from '../version.ts'
import type { App } from './app.ts'

const INTRODUCTION = `Organizations, roles, domains, invitations and API keys around pipelines that move one stream of a source to a destination.

Send \`Authorization: Bearer <access token>\` or \`X-API-Key: <key>\`. Errors are always \`{ "detail": "…" }\`. Lists are plain arrays, newest first, with their total (counted to 10,000 at most) in \`X-Total-Count\`.`

export async function describeApi(app: App): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Sluice', version: VERSION, description: INTRODUCTION },
      components: {
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
          api_key: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        },
      },
      security: [{ token: [] }, { api_key: [] }],
    },
    transform: ({ schema, url, route }) => {
      const access = route.config?.access
      const needs =
        access === undefined || access === 'public' || access === 'authenticated' || access === 'person'
          ? ''
          : `Needs the permission \`${access}\`.`
      const description = [schema?.description, needs].filter(Boolean).join('\n\n')
      return {
        url,
        schema: {
          ...schema,
          ...(description && { description }),
          ...(access === 'public' && { security: [] }),
          ...(!url.startsWith('/api/') && !url.endsWith('z') && { hide: true }),
        },
      }
    },
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: { docExpansion: 'none', persistAuthorization: true, filter: true },
    theme: { title: 'Sluice API reference' },
    staticCSP: true,
  })
  app.get('/api/openapi.json', { config: { access: 'public' }, schema: { hide: true } }, () => app.swagger())
}
