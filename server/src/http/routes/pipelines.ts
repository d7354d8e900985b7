import { createPipelines, planPipelines } from '../../pipelines/bulk.ts'
import { copyPipeline } from '../../pipelines/copy.ts'
import { listPipelines } from '../../pipelines/list.ts'
import { createPipeline, readPipeline, tryUpdate, updatePipeline } from '../../pipelines/pipelines.ts'
import { previewSchedule } from '../../pipelines/schedule.ts'
import { readSchema, readState, writeState } from '../../pipelines/state.ts'
import { deletePipeline } from '../../runs/delete-pipeline.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { sendJsonList } from '../json-list.ts'
import { IdParams, NoContent, problems } from '../schemas/common.ts'
import {
  BulkPipelines,
  BulkPlan,
  ChangedPipeline,
  CopyPipeline,
  CreatePipeline,
  MaskedQuery,
  PipelineListItem,
  PipelineQuery,
  PipelineView,
  PipelineWithConfig,
  PreviewSchedule,
  SchedulePreview,
  SchemaView,
  StateView,
  UpdatePipeline,
  WriteState,
} from '../schemas/pipelines.ts'
import { ListOf, paging } from '../total-count.ts'

const tags = ['Pipelines']

export function pipelineRoutes(app: App, services: Services): void {
  collectionRoutes(app, services)
  itemRoutes(app, services)
  copyRoutes(app, services)
  stateRoutes(app, services)
}

function collectionRoutes(app: App, services: Services): void {
  const { db } = services

  app.post(
    '/api/pipelines',
    {
      config: { access: 'pipelines:write' },
      schema: {
        tags,
        summary: 'Create a pipeline',
        description: 'The whole config is checked; `detail` begins with the path of what is wrong.',
        body: CreatePipeline,
        response: {
          201: PipelineView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
        },
      },
    },
    async (request, reply) => reply.code(201).send(await createPipeline(services, actorOf(request), request.body)),
  )

  app.get(
    '/api/pipelines',
    {
      config: { access: 'pipelines:read' },
      schema: {
        tags,
        summary: 'List pipelines',
        description:
          'Newest first unless sorted otherwise, each with its source, stream, destination, domain, last and next run.',
        querystring: PipelineQuery,
        response: { 200: ListOf(PipelineListItem), ...problems('invalid_input', 'unauthenticated') },
      },
    },
    async (request, reply) => {
      const { limit, offset, sort, q, search, status, last_run_status, ...rest } = request.query
      const page = { ...paging({ limit, offset }), sort }
      const filter = { ...rest, q: (q ?? search) || undefined, status: status ?? last_run_status }
      return sendJsonList(reply, await listPipelines(db, actorOf(request), filter, page))
    },
  )

  app.post(
    '/api/pipelines/schedule-preview',
    {
      config: { access: 'pipelines:read' },
      schema: {
        tags,
        summary: 'When a schedule fires next',
        body: PreviewSchedule,
        response: { 200: SchedulePreview, ...problems('invalid_input', 'unauthenticated') },
      },
    },
    (request) => previewSchedule(db, request.body),
  )
}

function itemRoutes(app: App, services: Services): void {
  const { db } = services

  app.get(
    '/api/pipelines/:id',
    {
      config: { access: 'pipelines:read' },
      schema: {
        tags,
        summary: 'A pipeline with its config',
        params: IdParams,
        querystring: MaskedQuery,
        response: {
          200: PipelineWithConfig,
          ...problems('invalid_input', 'unauthenticated', 'not_found', 'conflict'),
        },
      },
    },
    (request) => readPipeline(services, actorOf(request), request.params.id, request.query.masked),
  )

  app.put(
    '/api/pipelines/:id',
    {
      config: { access: 'pipelines:write' },
      schema: {
        tags,
        summary: 'Change a pipeline',
        description:
          'What is absent stays; null clears schedule, timezone and domain_id. Moving it to another domain needs the permission on both sides. A notice says when the next run starts from the beginning. With dry_run everything is checked and nothing changes.',
        params: IdParams,
        body: UpdatePipeline,
        response: {
          200: ChangedPipeline,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
        },
      },
    },
    (request) => {
      const { dry_run, ...input } = request.body
      const change = dry_run ? tryUpdate : updatePipeline
      return change(services, actorOf(request), request.params.id, input)
    },
  )

  app.delete(
    '/api/pipelines/:id',
    {
      config: { access: 'pipelines:write' },
      schema: {
        tags,
        summary: 'Delete a pipeline with all its runs',
        description: 'A run in progress is cancelled first.',
        params: IdParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await deletePipeline(db, actorOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
}

function copyRoutes(app: App, services: Services): void {
  for (const [word, summary] of [
    ['copy', 'Copy a pipeline'],
    ['duplicate', 'The same as copy'],
  ] as const)
    app.post(
      `/api/pipelines/:id/${word}`,
      {
        config: { access: 'pipelines:write' },
        schema: {
          tags,
          summary,
          description: 'The copy is disabled. Without a name it is called "X (copy)", then "X (copy 2)".',
          params: IdParams,
          body: CopyPipeline,
          response: {
            201: PipelineView,
            ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
          },
        },
      },
      async (request, reply) =>
        reply.code(201).send(await copyPipeline(services, actorOf(request), request.params.id, request.body ?? {})),
    )

  app.post(
    '/api/pipelines/bulk',
    {
      config: { access: 'pipelines:write' },
      schema: {
        tags,
        summary: 'Create a pipeline for each chosen stream of a source',
        description:
          'All of them or none. A missing cursor_field or primary_key of config.sync is taken from the description of each stream.',
        body: BulkPipelines,
        response: {
          200: BulkPlan,
          201: ListOf(PipelineView),
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) => {
      const { dry_run, ...input } = request.body
      const signal = signalOf(reply)
      if (dry_run) return reply.code(200).send(await planPipelines(services, actorOf(request), input, signal))
      return reply.code(201).send(await createPipelines(services, actorOf(request), input, signal))
    },
  )
}

function stateRoutes(app: App, services: Services): void {
  app.get(
    '/api/pipelines/:id/state',
    {
      config: { access: 'pipelines:read' },
      schema: {
        tags,
        summary: 'The cursor from which the next incremental run continues',
        description:
          'Null also where the pipeline was changed since it was kept, so that the next run starts from the beginning.',
        params: IdParams,
        response: { 200: StateView, ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    (request) => readState(services, actorOf(request), request.params.id),
  )

  app.put(
    '/api/pipelines/:id/state',
    {
      config: { access: 'pipelines:write' },
      schema: {
        tags,
        summary: 'Set the cursor',
        description: 'It belongs to the current config, regardless of what the pipeline read and wrote before.',
        params: IdParams,
        body: WriteState,
        response: { 200: StateView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => writeState(services, actorOf(request), request.params.id, request.body.cursor),
  )

  app.delete(
    '/api/pipelines/:id/state',
    {
      config: { access: 'pipelines:write' },
      schema: {
        tags,
        summary: 'Forget the cursor',
        description: 'The next incremental run reads everything.',
        params: IdParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await writeState(services, actorOf(request), request.params.id, null)
      return reply.code(204).send(null)
    },
  )

  app.get(
    '/api/pipelines/:id/schema',
    {
      config: { access: 'pipelines:read' },
      schema: {
        tags,
        summary: 'The columns that the destination has after the last run',
        params: IdParams,
        response: { 200: SchemaView, ...problems('invalid_input', 'unauthenticated', 'not_found') },
      },
    },
    (request) => readSchema(services.db, actorOf(request), request.params.id),
  )
}
