import type { Services } from '../../services.ts'
import { createApiKey, listApiKeys, revokeApiKey } from '../../tenancy/api-keys.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { ApiKeyItem, ApiKeyList, ApiKeyParams, CreateApiKey, CreatedApiKey } from '../schemas/api-keys.ts'
import { NoContent, problems } from '../schemas/common.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['API keys']

export function apiKeyRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/api-keys',
    {
      config: { access: 'api_keys:read' },
      schema: {
        tags,
        summary: 'API keys of the organization that were not revoked',
        querystring: ApiKeyList,
        response: { 200: ListOf(ApiKeyItem), ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) => withTotal(reply, await listApiKeys(db, actorOf(request), paging(request.query))),
  )

  app.post(
    '/api/api-keys',
    {
      config: { access: 'api_keys:write' },
      schema: {
        tags,
        summary: 'Create an API key',
        description:
          'It has the permissions that its creator has in this organization at the moment of each use, limited by `role` and `scopes`. A key that is created with a key has at most the same limits, expires no later and is revoked with it. The whole key is shown only in this response.',
        body: CreateApiKey,
        response: { 201: CreatedApiKey, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      const { name, expires_in_days = null, role, scopes } = request.body
      return reply.code(201).send(await createApiKey(db, actorOf(request), { name, expires_in_days, role, scopes }))
    },
  )

  app.delete(
    '/api/api-keys/:key_id',
    {
      config: { access: 'api_keys:write' },
      schema: {
        tags,
        summary: 'Revoke an API key',
        description:
          'It stops working immediately, and so do the keys that were created with it. Members revoke their own keys, admins and the owner any.',
        params: ApiKeyParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await revokeApiKey(db, actorOf(request), request.params.key_id)
      return reply.code(204).send(null)
    },
  )
}
