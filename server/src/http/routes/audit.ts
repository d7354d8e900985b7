import { Readable } from 'node:stream'
import type { Services } from '../../services.ts'
import { AUDIT_COLUMNS, type AuditLine, exportAuditLines, listAuditLines } from '../../tenancy/audit-log.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { csvLine } from '../csv.ts'
import { AuditAnswer, AuditQuery } from '../schemas/audit.ts'
import { MAX_LIMIT, problems } from '../schemas/common.ts'
import { withTotal } from '../total-count.ts'

const DEFAULT_LIMIT = 100

export function auditRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/audit',
    {
      config: { access: 'audit:read' },
      schema: {
        tags: ['Audit'],
        summary: 'Who did what, newest first',
        description:
          'For the next page send the `id` of the last line as `before`. With `format=csv` or `Accept: text/csv` the response is a CSV file of all matching lines.',
        querystring: AuditQuery,
        response: { 200: AuditAnswer, ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) => {
      const { limit, offset, before, format, ...filter } = request.query
      if (format === 'csv' || (format === undefined && prefersCsv(request.headers.accept))) {
        const chunks = exportAuditLines(db, actorOf(request), filter, { limit, offset, before })
        reply.header('Content-Disposition', 'attachment; filename="audit.csv"').type('text/csv; charset=utf-8')
        return reply.send((await startCsv(chunks)) as unknown as string)
      }
      const page = { limit: Math.min(limit ?? DEFAULT_LIMIT, MAX_LIMIT), offset, before }
      return withTotal(reply, await listAuditLines(db, actorOf(request), filter, page))
    },
  )
}

const prefersCsv = (accept: string | undefined): boolean => /^\s*text\/csv\b/i.test(accept ?? '')

/** The first chunk is read before the response starts, so that a wrong filter is still an error response. */
async function startCsv(chunks: AsyncGenerator<AuditLine[]>): Promise<Readable> {
  const first = await chunks.next()
  async function* lines(): AsyncGenerator<string> {
    yield csvLine(AUDIT_COLUMNS)
    if (first.done) return
    yield toCsv(first.value)
    for await (const rows of chunks) yield toCsv(rows)
  }
  return Readable.from(lines())
}

const toCsv = (rows: AuditLine[]): string =>
  rows.map((row) => csvLine(AUDIT_COLUMNS.map((column) => row[column]))).join('')
