/** The API's description at /api/openapi.json, made from the routes' schemas, and a browsable reference of it at /docs. */
import { isDeepStrictEqual } from 'node:util'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { ErrorCode } from '../errors.ts'
import { VERSION } from '../version.ts'
import type { App } from './app-type.ts'
import type { Access } from './authenticate.ts'
import { NO_FIELDS } from './known-fields.ts'
import { nameComponents } from './openapi-components.ts'
import { Problem, problems } from './schemas/common.ts'
import { nameSchemas } from './schemas/component-names.ts'

const INTRODUCTION = `Organizations, roles, domains, invitations and API keys around pipelines that move one stream of a source to a destination.

Send \`Authorization: Bearer <access token>\` or \`X-API-Key: <key>\`. Errors are always \`{ "detail": "…" }\`. Lists are plain arrays, newest first, with their total (counted to 10,000 at most) in \`X-Total-Count\`.

Unknown fields and query parameters are refused with 400. A PUT also takes the fields that the GET of the same path returns, as long as they are unchanged.`

interface DeclaredResponse {
  description?: string
  headers?: object
  content?: object
  type?: unknown
  properties?: object
}
interface DeclaredSchema {
  produces?: string[]
  response?: Record<string, DeclaredResponse>
}

/** Every answer that a route can give: those it declares, and those that come from its access, its input and chance. */
function completeResponses(
  method: string,
  schema: DeclaredSchema | undefined,
  access: Access | undefined,
): Record<string, object> {
  const codes: ErrorCode[] = []
  // An unknown query parameter is refused everywhere, and a body that nobody asked for is read all the same.
  if (access !== undefined) codes.push('invalid_input', 'internal', 'unavailable')
  if (access !== undefined && method !== 'GET') codes.push('too_large')
  if (access !== undefined && access !== 'public') codes.push('unauthenticated')
  if (access?.includes(':') || access === 'unlimited' || access === 'person') codes.push('forbidden')
  const all = { ...problems(...codes), ...schema?.response } as Record<string, DeclaredResponse>
  return Object.fromEntries(
    Object.entries(all).map(([status, response]) => [status, describeResponse(status, response, schema?.produces)]),
  )
}

/** The description belongs to the answer and not to its schema, which other answers share. */
function describeResponse(status: string, response: DeclaredResponse, produces = ['application/json']): object {
  const { description = SUCCESS[status] ?? 'Answer', headers, ...schema } = response
  if (schema.content || schema.type === 'null') return response
  // Whatever else a route sends, its errors are JSON. `problems` gives them descriptions of their own.
  const isProblem = Number(status) >= 400 && isDeepStrictEqual(schema.properties, Problem.properties)
  const content = { schema: isProblem ? Problem : schema }
  const types = Number(status) >= 400 ? ['application/json'] : produces
  return { description, headers, content: Object.fromEntries(types.map((type) => [type, content])) }
}

const SUCCESS: Record<string, string> = { 200: 'Success', 201: 'Created' }

/** `DELETE /api/users/:user_id/domain-roles/:domain_id` → `deleteUsersByUserIdDomainRolesByDomainId`. */
const nameOperation = (method: string, url: string): string =>
  method.toLowerCase() +
  url
    .replace('/api', '')
    .replaceAll('/:', '/by-')
    .split(/[^a-zA-Z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')

export async function describeApi(app: App): Promise<void> {
  nameSchemas()
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
      const needs = access?.includes(':') ? `Needs the permission \`${access}\`.` : ''
      const description = [schema?.description, needs].filter(Boolean).join('\n\n')
      return {
        url,
        schema: {
          ...schema,
          ...(description && { description }),
          ...(access !== undefined && { operationId: nameOperation(String(route.method), url) }),
          ...(schema?.body === NO_FIELDS && { body: undefined }),
          response: completeResponses(String(route.method), schema as DeclaredSchema | undefined, access),
          ...(access === 'public' && { security: [] }),
          ...(!url.startsWith('/api/') && !url.endsWith('z') && { hide: true }),
        },
      }
    },
    transformObject: (given) => ('openapiObject' in given ? nameComponents(given.openapiObject) : given.swaggerObject),
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: { docExpansion: 'none', persistAuthorization: true, filter: true },
    theme: { title: 'Sluice API reference' },
    staticCSP: true,
  })
  app.get('/api/openapi.json', { config: { access: 'public' }, schema: { hide: true } }, () => app.swagger())
}
