import type { FastifyReply } from 'fastify'
import {
  createCustomSource,
  deleteCustomSource,
  listCustomSources,
  listVersions,
  readCustomSource,
  readVersion,
  updateCustomSource,
  validateSource,
} from '../../connections/custom-sources.ts'
import {
  checkCustomSource,
  type PreviewResult as PreviewAnswer,
  previewCustomSource,
} from '../../connections/previews.ts'
import { listPipelines } from '../../pipelines/list.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import { requirePermission } from '../../tenancy/actor.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { sendJsonList } from '../json-list.ts'
import { IdParams, NoContent, OptionalPaging, Paging, problems } from '../schemas/common.ts'
import { CheckResult, DeleteQuery, InUse } from '../schemas/connectors.ts'
import {
  CheckSource,
  CreateCustomSource,
  CustomSourceCreated,
  CustomSourceItem,
  CustomSourceView,
  PreviewResult,
  PreviewSource,
  UpdateCustomSource,
  ValidateSource,
  ValidationResult,
  VersionItem,
  VersionParams,
  VersionView,
} from '../schemas/custom-sources.ts'
import { PipelineListItem } from '../schemas/pipelines.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['Custom sources']

export function customSourceRoutes(app: App, services: Services): void {
  collectionRoutes(app, services)
  sourceRoutes(app, services)
  trialRoutes(app, services)
  historyRoutes(app, services)
}

function collectionRoutes(app: App, services: Services): void {
  const { db } = services

  app.post(
    '/api/custom-sources/validate',
    {
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Validate code; nothing is saved',
        body: ValidateSource,
        response: {
          200: ValidationResult,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'too_many_requests'),
        },
      },
    },
    (request, reply) => validateSource(services, actorOf(request), request.body, signalOf(reply)),
  )

  app.post(
    '/api/custom-sources',
    {
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Create a custom source',
        body: CreateCustomSource,
        response: {
          201: CustomSourceCreated,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await createCustomSource(services, actorOf(request), request.body, signalOf(reply))),
  )

  app.get(
    '/api/custom-sources',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'List custom sources',
        querystring: Type.Object(OptionalPaging),
        response: { 200: ListOf(CustomSourceItem), ...problems('invalid_input', 'unauthenticated') },
      },
    },
    async (request, reply) => withTotal(reply, await listCustomSources(db, actorOf(request), paging(request.query))),
  )
}

function sourceRoutes(app: App, services: Services): void {
  const { db } = services

  app.get(
    '/api/custom-sources/:id',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'A custom source with its code',
        params: IdParams,
        response: { 200: CustomSourceView, ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    (request) => readCustomSource(db, actorOf(request), request.params.id),
  )

  app.put(
    '/api/custom-sources/:id',
    {
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Change a custom source',
        description: 'New code becomes a new version. Runs in progress keep the code they started with.',
        params: IdParams,
        body: UpdateCustomSource,
        response: {
          200: CustomSourceView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'too_many_requests'),
        },
      },
    },
    (request, reply) =>
      updateCustomSource(services, actorOf(request), { ...request.body, ...request.params }, signalOf(reply)),
  )

  app.delete(
    '/api/custom-sources/:id',
    {
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Delete a custom source',
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
      await deleteCustomSource(db, actorOf(request), request.params.id, request.query)
      return reply.code(204).send(null)
    },
  )
}

function trialRoutes(app: App, services: Services): void {
  app.post(
    '/api/custom-sources/preview',
    {
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Read a few records',
        description: 'Of saved code (source_id), of the code given, or of the code given in place of the saved one.',
        body: PreviewSource,
        response: {
          200: PreviewResult,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'too_many_requests'),
        },
      },
    },
    async (request, reply) =>
      sendPreview(reply, await previewCustomSource(services, actorOf(request), request.body, signalOf(reply))),
  )

  app.post(
    '/api/custom-sources/:id/check',
    {
      config: { access: 'custom_sources:write' },
      schema: {
        tags,
        summary: 'Test the connection of a custom source',
        description: 'Of the code given in place of the saved one, if there is any.',
        params: IdParams,
        body: CheckSource,
        response: {
          200: CheckResult,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'too_many_requests'),
        },
      },
    },
    (request, reply) =>
      checkCustomSource(services, actorOf(request), { ...request.body, ...request.params }, signalOf(reply)),
  )
}

/** The records go out as they came: they are as large as an author likes, and parsing them here would cost everybody's time. */
function sendPreview(reply: FastifyReply, { records, partial_records, ...rest }: PreviewAnswer): never {
  const text = Buffer.concat([
    Buffer.from(`${JSON.stringify(rest).slice(0, -1)},"records":`),
    records,
    Buffer.from(',"partial_records":'),
    partial_records,
    Buffer.from('}'),
  ])
  return reply.header('Content-Type', 'application/json; charset=utf-8').send(text) as never
}

function historyRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/custom-sources/:id/versions',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'The versions of a custom source, newest first',
        params: IdParams,
        querystring: Type.Object(OptionalPaging),
        response: { 200: ListOf(VersionItem), ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listVersions(db, actorOf(request), request.params.id, paging(request.query))),
  )

  app.get(
    '/api/custom-sources/:id/versions/:version',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'One version with its code',
        params: VersionParams,
        response: { 200: VersionView, ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    (request) => readVersion(db, actorOf(request), request.params.id, request.params.version),
  )

  app.get(
    '/api/custom-sources/:id/pipelines',
    {
      config: { access: 'custom_sources:read' },
      schema: {
        tags,
        summary: 'The pipelines that use a custom source',
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
      const { source_name } = await readCustomSource(db, actor, request.params.id)
      const page = paging(request.query)
      return sendJsonList(reply, await listPipelines(db, actor, { source: source_name }, page))
    },
  )
}
