import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Listed } from '../../database/lists.ts'
import { readActivity } from '../../runs/activity.ts'
import { triggerBackfill } from '../../runs/backfill.ts'
import { cancelRun } from '../../runs/cancel.ts'
import {
  attachmentName,
  createTicket,
  findOutput,
  type OutputFile,
  parseRange,
  redeemTicket,
  streamOutput,
} from '../../runs/download.ts'
import { readLogText } from '../../runs/log-reading.ts'
import { searchLog } from '../../runs/log-search.ts'
import { listRuns } from '../../runs/organization-runs.ts'
import { findQuarantine, streamQuarantine } from '../../runs/quarantine.ts'
import { replayRun } from '../../runs/replay.ts'
import { resendQuarantine } from '../../runs/resend.ts'
import { listPipelineRuns, readPipelineStats, readRun, requireStatus, type StatusCounts } from '../../runs/runs.ts'
import { triggerRun } from '../../runs/trigger.ts'
import { readRunConfig } from '../../runs/used-config.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { followLog } from '../log-stream.ts'
import { followRuns } from '../run-stream.ts'
import { IdParams, problems } from '../schemas/common.ts'
import {
  ActivityQuery,
  AllRunsQuery,
  Backfill,
  Cancelled,
  EventsQuery,
  ListOfRuns,
  Logs,
  LogsQuery,
  OutputQuery,
  outputFile,
  PipelineActivity,
  PipelineStats,
  quarantineFile,
  Replay,
  RunConfig,
  RunDetail,
  RunItem,
  RunOfOrganization,
  RunParams,
  RunsQuery,
  StatsQuery,
  Ticket,
  TriggeredRun,
} from '../schemas/runs.ts'
import { paging, withTotal } from '../total-count.ts'

const tags = ['Runs']
const read = { access: 'pipelines:read' } as const
const refusals = problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found')

export function runRoutes(app: App, services: Services): void {
  pipelineRoutes(app, services)
  runDetailRoutes(app, services)
  logRoutes(app, services)
  eventRoutes(app, services)
  outputRoutes(app, services)
  quarantineRoutes(app, services)
  replayRoutes(app, services)
}

function pipelineRoutes(app: App, services: Services): void {
  const { db } = services

  app.post(
    '/api/pipelines/:id/run',
    {
      config: { access: 'pipelines:run' },
      schema: {
        tags,
        summary: 'Run a pipeline now',
        description: 'Runs of one pipeline execute one after another.',
        params: IdParams,
        response: { 201: TriggeredRun, ...refusals, ...problems('too_many_requests') },
      },
    },
    async (request, reply) => reply.code(201).send(await triggerRun(services, actorOf(request), request.params.id)),
  )

  app.post(
    '/api/pipelines/:id/backfill',
    {
      config: { access: 'pipelines:run' },
      schema: {
        tags,
        summary: 'Read a range of the cursor again',
        description:
          'A run of `triggered_by` backfill: records whose cursor is at least `from` and below `to` are read and upserted, and the state of the pipeline stays as it is. The pipeline must be incremental with upsert.',
        params: IdParams,
        body: Backfill,
        response: { 201: TriggeredRun, ...refusals, ...problems('too_many_requests') },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await triggerBackfill(services, actorOf(request), request.params.id, request.body)),
  )

  app.get(
    '/api/pipelines/:id/runs',
    {
      config: read,
      schema: {
        tags,
        summary: 'Runs of a pipeline',
        params: IdParams,
        querystring: RunsQuery,
        response: { 200: ListOfRuns(RunItem), ...refusals },
      },
    },
    async (request, reply) =>
      withCounts(
        reply,
        await listPipelineRuns(db, actorOf(request), request.params.id, {
          status: requireStatus(request.query.status),
          ...paging(request.query),
          include_counts: request.query.include_counts,
        }),
      ),
  )

  app.get(
    '/api/pipelines/:id/stats',
    {
      config: read,
      schema: {
        tags,
        summary: 'How the runs of a pipeline went',
        params: IdParams,
        querystring: StatsQuery,
        response: { 200: PipelineStats, ...refusals },
      },
    },
    (request) => readPipelineStats(db, actorOf(request), request.params.id, request.query.days),
  )

  app.get(
    '/api/pipelines/activity',
    {
      config: read,
      schema: {
        tags,
        summary: 'The last runs of many pipelines',
        description: 'A few fields of each run, for strips and charts, with the last success and the next run.',
        querystring: ActivityQuery,
        response: { 200: Type.Array(PipelineActivity), ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    (request) => {
      const { ids, runs } = request.query
      return readActivity(db, actorOf(request), { ids: [...new Set(ids.toLowerCase().split(','))], runs })
    },
  )

  app.get(
    '/api/runs',
    {
      config: read,
      schema: {
        tags,
        summary: 'Runs of all pipelines',
        description: 'Newest first. For the next page give the id of the last run as `before`.',
        querystring: AllRunsQuery,
        response: { 200: ListOfRuns(RunOfOrganization), ...refusals },
      },
    },
    async (request, reply) => {
      const filters = { ...request.query, ...paging(request.query) }
      return withCounts(reply, await listRuns(db, actorOf(request), filters))
    },
  )
}

function eventRoutes(app: App, services: Services): void {
  app.get(
    '/api/runs/events',
    {
      config: read,
      schema: {
        tags,
        summary: 'Follow the runs that you may see',
        description:
          'Server-sent events: `run` with a run as it is now (at first all that have not ended or ended in the last seconds), `deleted` with the id of one that is gone, and `heartbeat` every ten seconds. Steps in quick succession may come as one. A stream ends when the session or key does; after a break list the runs again.',
        querystring: EventsQuery,
        produces: ['text/event-stream'],
        response: {
          200: Type.String({ description: 'An event stream' }),
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'too_many_requests'),
        },
      },
    },
    async (request, reply) => {
      // Fastify would read the stream to its end, which does not come.
      if (request.method === 'HEAD') return ''
      return followRuns(services, request, reply, request.query.seconds)
    },
  )
}

function runDetailRoutes(app: App, services: Services): void {
  const { db } = services

  app.get(
    '/api/pipelines/runs/:run_id',
    {
      config: read,
      schema: { tags, summary: 'One run', params: RunParams, response: { 200: RunDetail, ...refusals } },
    },
    (request) => readRun(db, actorOf(request), request.params.run_id),
  )

  app.get(
    '/api/pipelines/runs/:run_id/config',
    {
      config: read,
      schema: {
        tags,
        summary: 'The configuration that a run used',
        description:
          'As it was resolved when the run was triggered, saved connectors included; secrets read ******** for everybody, and so do the query of an address and all texts and numbers in the settings of a custom source. Without connectors:read, of a saved connector there is only its id and what the pipeline overrides. It is kept as long as the run; if a pipeline had more than 100 different ones, only its last 100 runs keep theirs. 404 if there is none.',
        params: RunParams,
        response: { 200: RunConfig, ...refusals, ...problems('conflict') },
      },
    },
    (request) => readRunConfig(services, actorOf(request), request.params.run_id),
  )

  app.post(
    '/api/pipelines/runs/:run_id/cancel',
    {
      config: { access: 'pipelines:run' },
      schema: {
        tags,
        summary: 'Cancel a waiting or running run',
        params: RunParams,
        response: { 200: Cancelled, ...refusals, ...problems('conflict') },
      },
    },
    (request) => cancelRun(db, actorOf(request), request.params.run_id),
  )
}

function logRoutes(app: App, services: Services): void {
  const { db, blobs } = services

  app.get(
    '/api/pipelines/runs/:run_id/logs',
    {
      config: read,
      schema: {
        tags,
        summary: 'The log of a run',
        description:
          'The whole log, or its last lines that match: the search goes over all of it. To page backwards give the first of the `numbers` as `before`.',
        params: RunParams,
        querystring: LogsQuery,
        response: { 200: Logs, ...refusals },
      },
    },
    async (request) => {
      const { params, query } = request
      if (Object.keys(query).length > 0) return searchLog({ db, blobs }, actorOf(request), params.run_id, query)
      const logs = await readLogText({ db, blobs }, actorOf(request), params.run_id)
      return { logs, numbers: null, more: false }
    },
  )

  app.get(
    '/api/pipelines/runs/:run_id/logs/stream',
    {
      config: read,
      schema: {
        tags,
        summary: 'Follow the log of a run',
        description:
          'Server-sent events: `line` for each line, with its number as id (send it back as Last-Event-ID to resume), `end` with the final status.',
        params: RunParams,
        produces: ['text/event-stream'],
        response: {
          200: Type.String({ description: 'An event stream' }),
          ...refusals,
          ...problems('too_many_requests'),
        },
      },
    },
    (request, reply) => followLog(services, request.params.run_id, request, reply),
  )
}

function outputRoutes(app: App, services: Services): void {
  const { db } = services

  app.post(
    '/api/pipelines/runs/:run_id/output/ticket',
    {
      config: read,
      schema: {
        tags,
        summary: 'An address for a browser to download the output from',
        description: 'It works once, within 60 seconds.',
        params: RunParams,
        response: { 201: Ticket, ...refusals },
      },
    },
    async (request, reply) => reply.code(201).send(await createTicket(db, actorOf(request), request.params.run_id)),
  )

  for (const name of ['output', 'download'])
    app.get(
      `/api/pipelines/runs/:run_id/${name}`,
      {
        config: { ...read, ticket: true },
        schema: {
          tags,
          summary: 'Download the output of a run',
          description: 'The file as an attachment; ranges are served. With `?ticket=` no other credentials are needed.',
          params: RunParams,
          querystring: OutputQuery,
          response: {
            200: outputFile('The file'),
            206: outputFile('A part of the file'),
            304: Type.Null({ description: 'If-None-Match names the file as it is' }),
            ...refusals,
            ...problems('range_not_satisfiable'),
          },
        },
      },
      async (request, reply) => {
        const { run_id } = request.params as { run_id: string }
        const { ticket } = request.query as { ticket?: string }
        const file =
          ticket === undefined ? await findOutput(db, actorOf(request), run_id) : await redeemTicket(db, run_id, ticket)
        return sendOutput(services, file, request, reply)
      },
    )
}

function quarantineRoutes(app: App, services: Services): void {
  const { db, blobs } = services

  app.get(
    '/api/pipelines/runs/:run_id/quarantine',
    {
      config: read,
      schema: {
        tags,
        summary: 'The records that the destination of a run refused',
        description:
          'One JSON object `{record, reason}` per line (config.sync.on_error: quarantine). Expires like the output. 404 if there is none.',
        params: RunParams,
        response: { 200: quarantineFile, ...refusals },
      },
    },
    async (request, reply) => {
      const quarantine = await findQuarantine(db, actorOf(request), request.params.run_id)
      const body = request.method === 'HEAD' ? Readable.from([]) : await streamQuarantine(blobs, quarantine)
      return reply
        .header('Cache-Control', 'private, no-cache')
        .type('application/x-ndjson')
        .serializer((given: unknown) => given as string)
        .send(body)
    },
  )

  app.post(
    '/api/pipelines/runs/:run_id/quarantine/resend',
    {
      config: { access: 'pipelines:run' },
      schema: {
        tags,
        summary: 'Send the quarantine of a run again',
        description:
          'Creates a run of the same pipeline that loads these records into its destination, as they are in the quarantine. A replace becomes an append; the state of the pipeline stays as it is. Sending twice loads twice, unless the pipeline upserts. 404 if there is no quarantine.',
        params: RunParams,
        response: { 201: TriggeredRun, ...refusals, ...problems('conflict', 'too_many_requests') },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await resendQuarantine(services, actorOf(request), request.params.run_id)),
  )
}

function replayRoutes(app: App, services: Services): void {
  app.post(
    '/api/pipelines/runs/:run_id/replay',
    {
      config: { access: 'pipelines:run' },
      schema: {
        tags,
        summary: 'Load the output of a run again',
        description:
          'A run of `triggered_by` replay: the kept output of this run is loaded into the destination of its pipeline, or into the one given, without asking the source. It is written as the pipeline writes: replace replaces, upsert merges, append adds the records once more. The state of the pipeline stays as it is. To give a destination needs pipelines:write and pipelines:read too. 409 if there is no kept output.',
        params: RunParams,
        body: Replay,
        response: { 201: TriggeredRun, ...refusals, ...problems('conflict', 'too_many_requests') },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await replayRun(services, actorOf(request), request.params.run_id, request.body ?? {})),
  )
}

function withCounts<Row>(reply: FastifyReply, list: Listed<Row> & { counts?: StatusCounts }): Row[] {
  if (list.counts) reply.header('X-Status-Counts', JSON.stringify(list.counts))
  return withTotal(reply, list)
}

async function sendOutput(
  { blobs }: Services,
  file: OutputFile,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const size = file.output_file_size
  const etag = `"${file.run_id}-${size}"`
  const headers = {
    ETag: etag,
    'Accept-Ranges': 'bytes',
    'Cache-Control': 'private, no-cache',
    'Content-Disposition': `attachment; filename="${attachmentName(file)}"`,
  }
  if (request.headers['if-none-match'] === etag) return reply.headers(headers).code(304).send()
  const stale = request.headers['if-range'] !== undefined && request.headers['if-range'] !== etag
  const range = stale ? null : parseRange(request.headers.range, size)
  const { start, end } = range ?? { start: 0, end: size - 1 }
  // Before any header is set: an unavailable store is reported like every other error. For HEAD Fastify would read the
  // body to its end, only to drop it.
  const body = request.method === 'HEAD' ? Readable.from([]) : await streamOutput(blobs, file, { start, end })
  reply
    .headers(headers)
    .type(file.output_type)
    .header('Content-Length', end - start + 1)
  if (range) reply.code(206).header('Content-Range', `bytes ${start}-${end}/${size}`)
  return reply.serializer((given: unknown) => given as string).send(body)
}
