import {
  type ConnectorType,
  createSavedConnector,
  deleteSavedConnector,
  listSavedConnectors,
  readSavedConnector,
  requireSavedConnector,
  updateSavedConnector,
} from '../../connections/saved-connectors.ts'
import { listPipelines } from '../../pipelines/list.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import { requirePermission } from '../../tenancy/actor.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { sendJsonList } from '../json-list.ts'
import { IdParams, NoContent, OptionalPaging, Paging, problems } from '../schemas/common.ts'
import {
  CreateSavedConnector,
  DeleteQuery,
  InUse,
  SavedConnectorView,
  SavedConnectorWithConfig,
  UpdateSavedConnector,
} from '../schemas/connectors.ts'
import { PipelineListItem } from '../schemas/pipelines.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

export function savedConnectorRoutes(app: App, services: Services): void {
  for (const [type, path] of [
    ['source', '/api/saved/sources'],
    ['destination', '/api/saved/destinations'],
  ] as const) {
    collectionRoutes(app, services, type, path)
    itemRoutes(app, services, type, path)
    useRoutes(app, services, type, path)
  }
}

const tags = ['Saved connectors']

function collectionRoutes(app: App, services: Services, type: ConnectorType, path: string): void {
  const { db } = services

  app.post(
    path,
    {
      config: { access: 'connectors:write' },
      schema: {
        tags,
        summary: `Save a ${type}`,
        body: CreateSavedConnector,
        response: { 201: SavedConnectorView, ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await createSavedConnector(services, actorOf(request), type, request.body)),
  )

  app.get(
    path,
    {
      config: { access: 'connectors:read' },
      schema: {
        tags,
        summary: `List saved ${type}s`,
        querystring: Type.Object(OptionalPaging),
        response: { 200: ListOf(SavedConnectorView), ...problems('invalid_input', 'unauthenticated') },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listSavedConnectors(db, actorOf(request), type, paging(request.query))),
  )
}

function itemRoutes(app: App, services: Services, type: ConnectorType, path: string): void {
  const { db } = services

  app.get(
    `${path}/:id`,
    {
      config: { access: 'connectors:read' },
      schema: {
        tags,
        summary: `A saved ${type} with its config`,
        params: IdParams,
        response: {
          200: SavedConnectorWithConfig,
          ...problems('invalid_input', 'unauthenticated', 'not_found', 'conflict'),
        },
      },
    },
    (request) => readSavedConnector(services, actorOf(request), { type, id: request.params.id }),
  )

  app.put(
    `${path}/:id`,
    {
      config: { access: 'connectors:write' },
      schema: {
        tags,
        summary: `Change a saved ${type}`,
        params: IdParams,
        body: UpdateSavedConnector,
        response: {
          200: SavedConnectorView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
        },
      },
    },
    (request) => updateSavedConnector(services, actorOf(request), { type, id: request.params.id }, request.body),
  )

  app.delete(
    `${path}/:id`,
    {
      config: { access: 'connectors:write' },
      schema: {
        tags,
        summary: `Delete a saved ${type}`,
        description:
          'Pipelines that use it stay; their next run fails and says that it is gone. With `if_unused` it is not deleted then, and the answer says who uses it.',
        params: IdParams,
        querystring: DeleteQuery,
        response: {
          204: NoContent,
          409: InUse,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found'),
        },
      },
    },
    async (request, reply) => {
      await deleteSavedConnector(db, actorOf(request), { type, id: request.params.id }, request.query)
      return reply.code(204).send(null)
    },
  )
}

function useRoutes(app: App, { db }: Services, type: ConnectorType, path: string): void {
  app.get(
    `${path}/:id/pipelines`,
    {
      config: { access: 'connectors:read' },
      schema: {
        tags,
        summary: `The pipelines that use a saved ${type}`,
        params: IdParams,
        querystring: Type.Object(Paging),
        response: {
          200: ListOf(PipelineListItem),
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found'),
        },
      },
    },
    async (request, reply) => {
      const actor = actorOf(request)
      const { id } = request.params
      requirePermission(actor, 'pipelines:read')
      await requireSavedConnector(db, actor, { type, id })
      const filter = type === 'source' ? { saved_source_id: id } : { saved_destination_id: id }
      return sendJsonList(reply, await listPipelines(db, actor, filter, paging(request.query)))
    },
  )
}
