import {
  createManifest,
  deleteManifest,
  listManifests,
  listManifestVersions,
  readManifest,
  readManifestVersion,
  updateManifest,
  validateManifest,
} from '../../connections/manifests.ts'
import { listPipelines } from '../../pipelines/list.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import { requirePermission } from '../../tenancy/actor.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { sendJsonList } from '../json-list.ts'
import { IdParams, NoContent, OptionalPaging, Paging, problems } from '../schemas/common.ts'
import { DeleteQuery, InUse } from '../schemas/connectors.ts'
import { VersionParams } from '../schemas/custom-sources.ts'
import {
  CreateManifest,
  ManifestCreated,
  ManifestItem,
  ManifestValidation,
  ManifestVersionItem,
  ManifestVersionView,
  ManifestView,
  UpdateManifest,
  ValidateManifest,
} from '../schemas/manifests.ts'
import { PipelineListItem } from '../schemas/pipelines.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['Manifests']
/** A manifest of 2 MB, escaped as JSON. */
const bodyLimit = 5 * 1024 * 1024

export function manifestRoutes(app: App, services: Services): void {
  collectionRoutes(app, services)
  manifestItemRoutes(app, services)
  historyRoutes(app, services)
}

function collectionRoutes(app: App, services: Services): void {
  app.post(
    '/api/manifests/validate',
    {
      bodyLimit,
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Validate a manifest; nothing is saved',
        body: ValidateManifest,
        response: {
          200: ManifestValidation,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'too_many_requests'),
        },
      },
    },
    (request, reply) => validateManifest(services, actorOf(request), request.body.manifest, signalOf(reply)),
  )

  app.post(
    '/api/manifests',
    {
      bodyLimit,
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Save a manifest; its source_name is then a source like any other',
        body: CreateManifest,
        response: {
          201: ManifestCreated,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await createManifest(services, actorOf(request), request.body, signalOf(reply))),
  )

  app.get(
    '/api/manifests',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'List manifests',
        querystring: Type.Object(OptionalPaging),
        response: { 200: ListOf(ManifestItem), ...problems('invalid_input', 'unauthenticated') },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listManifests(services.db, actorOf(request), paging(request.query))),
  )
}

function manifestItemRoutes(app: App, services: Services): void {
  const { db } = services

  app.get(
    '/api/manifests/:id',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'A manifest with its YAML',
        params: IdParams,
        response: { 200: ManifestView, ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    (request) => readManifest(db, actorOf(request), request.params.id),
  )

  app.put(
    '/api/manifests/:id',
    {
      bodyLimit,
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Change a manifest',
        description: 'New YAML becomes a new version. Runs in progress keep the one they started with.',
        params: IdParams,
        body: UpdateManifest,
        response: {
          200: ManifestView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'too_many_requests'),
        },
      },
    },
    (request, reply) =>
      updateManifest(services, actorOf(request), { ...request.body, ...request.params }, signalOf(reply)),
  )

  app.delete(
    '/api/manifests/:id',
    {
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Delete a manifest',
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
      await deleteManifest(db, actorOf(request), request.params.id, request.query)
      return reply.code(204).send(null)
    },
  )
}

function historyRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/manifests/:id/versions',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'The versions of a manifest, newest first',
        params: IdParams,
        querystring: Type.Object(OptionalPaging),
        response: { 200: ListOf(ManifestVersionItem), ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listManifestVersions(db, actorOf(request), request.params.id, paging(request.query))),
  )

  app.get(
    '/api/manifests/:id/versions/:version',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'One version with its YAML',
        params: VersionParams,
        response: { 200: ManifestVersionView, ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    (request) => readManifestVersion(db, actorOf(request), request.params.id, request.params.version),
  )

  app.get(
    '/api/manifests/:id/pipelines',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'The pipelines that use a manifest',
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
      requirePermission(actor, 'pipelines:read')
      const { source_name } = await readManifest(db, actor, request.params.id)
      const page = paging(request.query)
      return sendJsonList(reply, await listPipelines(db, actor, { source: source_name }, page))
    },
  )
}
