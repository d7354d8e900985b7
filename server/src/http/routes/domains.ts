import type { Services } from '../../services.ts'
import { createDomain, deleteDomain, listDomains, readDomain, updateDomain } from '../../tenancy/domains.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { NoContent, problems } from '../schemas/common.ts'
import { CreateDomain, DomainItem, DomainList, DomainParams, DomainView, UpdateDomain } from '../schemas/domains.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['Domains']

export function domainRoutes(app: App, services: Services): void {
  collectionRoutes(app, services)
  itemRoutes(app, services)
}

function collectionRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/domains',
    {
      config: { access: 'domains:read' },
      schema: {
        tags,
        summary: 'Domains of the organization',
        querystring: DomainList,
        response: { 200: ListOf(DomainItem), ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listDomains(db, actorOf(request), paging(request.query), request.query.include_counts)),
  )

  app.post(
    '/api/domains',
    {
      config: { access: 'domains:write' },
      schema: {
        tags,
        summary: 'Create a domain',
        body: CreateDomain,
        response: { 201: DomainView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'conflict') },
      },
    },
    async (request, reply) => reply.code(201).send(await createDomain(db, actorOf(request), request.body)),
  )
}

function itemRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/domains/:domain_id',
    {
      config: { access: 'domains:read' },
      schema: {
        tags,
        summary: 'A domain',
        params: DomainParams,
        response: { 200: DomainView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => readDomain(db, actorOf(request), request.params.domain_id),
  )

  app.put(
    '/api/domains/:domain_id',
    {
      config: { access: 'domains:write' },
      schema: {
        tags,
        summary: 'Change a domain',
        description:
          'Only the given fields change; null clears the description or the color. The admin role in this domain is enough.',
        params: DomainParams,
        body: UpdateDomain,
        response: {
          200: DomainView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
        },
      },
    },
    (request) => updateDomain(db, actorOf(request), request.params.domain_id, request.body),
  )

  app.delete(
    '/api/domains/:domain_id',
    {
      config: { access: 'domains:delete' },
      schema: {
        tags,
        summary: 'Delete an empty domain',
        description: 'A domain that still has pipelines cannot be deleted (403): move or delete them first.',
        params: DomainParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await deleteDomain(db, actorOf(request), request.params.domain_id)
      return reply.code(204).send(null)
    },
  )
}
