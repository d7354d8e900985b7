/** What a load would do to its table: the same decisions as a load, from a transaction that cannot write. */
import { ConnectorError, type LoadPreview, type PreviewContext } from '../../contract.ts'
import type { TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { readFlag } from '../shared/values.ts'
import { describeColumn } from './columns.ts'
import { checkKey, hasKeyIndex } from './merge.ts'
import { createPageQueue, type PageQueue } from './page-queue.ts'
import { readTable, type TableFacts } from './table.ts'

export async function previewLoad(
  session: Session,
  context: PreviewContext<object>,
  target: TableName,
): Promise<LoadPreview> {
  const { sync } = context
  const problems: string[] = []
  const attempt = async <T>(work: () => Promise<T> | T): Promise<T | null> => {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      problems.push(error.message)
      return null
    }
  }
  const [server] = await session.query('SELECT @@global.read_only', { read_only: readFlag })
  if (server?.read_only) problems.push('The server does not accept writes: it is a replica or set to read-only')
  const found = await attempt(() => readTable(session, target, { settle: false }))
  const queue = problems.length > 0 && found === null ? null : await attempt(() => fillQueue(context, found))
  const written = queue?.shape.written() ?? []
  if (sync.write === 'upsert' && written.length > 0) await attempt(() => checkKey(written, sync.primary_key))
  const changes = describeChanges(context, target, found, queue)
  if (found !== null && sync.write === 'upsert')
    await attempt(async () => {
      if (!(await hasKeyIndex(session, target, sync.primary_key)))
        changes.push(`creates a unique index on ${sync.primary_key.join(', ')}`)
    })
  problems.push(...(queue?.report() ?? []))
  return { columns: written.map(describeColumn), changes, problems }
}

function fillQueue({ sync, encoding, columns, pages }: PreviewContext<object>, table: TableFacts | null): PageQueue {
  const queue = createPageQueue({
    encoding,
    declared: columns,
    existing: table?.columns ?? null,
    generated: table?.generated ?? new Set(),
    contract: sync.schema_change,
  })
  for (const page of pages) queue.add(page)
  queue.take()
  return queue
}

function describeChanges(
  { sync }: PreviewContext<object>,
  { database, table }: TableName,
  found: TableFacts | null,
  queue: PageQueue | null,
): string[] {
  if (queue === null) return []
  const changes = queue.shape.takeChanges()
  if (found === null) return changes.length === 0 ? [] : [`creates table ${database}.${table}`]
  const rewrite = sync.write === 'replace' ? [`replaces all rows of ${database}.${table}`] : []
  return [...rewrite, ...changes.map((change) => change.replace(/^added/, 'adds').replace(/^widened/, 'widens'))]
}
