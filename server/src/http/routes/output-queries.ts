import type { FastifyReply } from 'fastify'
import { type QueryResult as QueryRows, queryOutput } from '../../runs/query.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { problems } from '../schemas/common.ts'
import { QueryAnswer, QueryOutput, QueryResult, SampleQuery } from '../schemas/output-queries.ts'
import { RunParams } from '../schemas/runs.ts'

const tags = ['Runs']
const read = { access: 'pipelines:read' } as const
const refusals = problems(
  'invalid_input',
  'unauthenticated',
  'forbidden',
  'not_found',
  'too_many_requests',
  'unavailable',
)
const DEFAULT_ROWS = 1000

export function outputQueryRoutes(app: App, services: Services): void {
  app.post(
    '/api/pipelines/runs/:run_id/query',
    {
      config: read,
      schema: {
        tags,
        summary: 'Query the output of a run with SQL',
        description:
          "The statement is executed by DuckDB, and only if it reads nothing but the table `output`. It has 30 seconds; the output may have up to 4 GB, uncompressed, and the answer up to 16 MB. Numbers keep all of their digits, so read those beyond 2^53 with a parser that does too. With `format: csv` the answer is a CSV file, and the header X-Truncated says whether it is all. A statement that is wrong, or needs too much, is 400 with DuckDB's own message.",
        params: RunParams,
        body: QueryOutput,
        response: { 200: QueryAnswer, ...refusals },
      },
    },
    async (request, reply) => {
      const { sql, format = 'json', limit = DEFAULT_ROWS } = request.body
      const query = { run_id: request.params.run_id, sql, format, limit }
      const result = await queryOutput(services, actorOf(request), query, signalOf(reply))
      return format === 'csv' ? sendCsv(reply, result) : sendRows(reply, result)
    },
  )

  app.get(
    '/api/pipelines/runs/:run_id/output/sample',
    {
      config: read,
      schema: {
        tags,
        summary: 'The first rows of the output of a run',
        description:
          'In the form of a query. Only the beginning of the output is read, so the types are those that its first rows have.',
        params: RunParams,
        querystring: SampleQuery,
        response: { 200: QueryResult, ...refusals },
      },
    },
    async (request, reply) => {
      const query = { run_id: request.params.run_id, sql: null, format: 'json', limit: request.query.rows } as const
      return sendRows(reply, await queryOutput(services, actorOf(request), query, signalOf(reply)))
    },
  )
}

/** The rows go out as they came from the executor; parsing them would cost time, and digits of their numbers. */
function sendRows(reply: FastifyReply, { columns, truncated, execution_time_ms, body }: QueryRows): never {
  const head = JSON.stringify({ columns, truncated, execution_time_ms }).slice(0, -1)
  const text = Buffer.concat([Buffer.from(`${head},"rows":`), body, Buffer.from('}')])
  return reply.header('Content-Type', 'application/json; charset=utf-8').send(text) as never
}

function sendCsv(reply: FastifyReply, { truncated, body }: QueryRows): never {
  return reply
    .header('X-Truncated', String(truncated))
    .header('Content-Type', 'text/csv; charset=utf-8')
    .send(body) as never
}
