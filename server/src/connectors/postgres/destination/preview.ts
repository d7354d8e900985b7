/** What a load would do to its table: the same decisions as a load, from a transaction that cannot write. */
import { ConnectorError, type LoadPreview, type PreviewContext } from '../../contract.ts'
import { formatStream, quoteName, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { describeColumn } from '../shared/type-names.ts'
import { readBoolean } from '../shared/values.ts'
import { checkKey, hasUnique } from './merge.ts'
import { createPageQueue, type PageQueue } from './page-queue.ts'
import { readColumns, readGeneratedColumns, type TableColumn } from './table.ts'

/** `checkRights` throws if the role may not load there. */
export async function previewLoad(
  session: Session,
  context: PreviewContext<object>,
  target: TableName,
  checkRights: () => Promise<void>,
): Promise<LoadPreview> {
  const { sync, encoding, columns: declared } = context
  const problems: string[] = []
  const attempt = async (work: () => Promise<void> | void): Promise<void> => {
    try {
      await work()
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      problems.push(error.message)
    }
  }
  await attempt(checkRights)
  const existing = await readColumns(session, target)
  const generated = await readGeneratedColumns(session, target)
  let queue: PageQueue | null = null
  await attempt(() => {
    queue = createPageQueue({ encoding, declared, existing, generated, contract: sync.schema_change })
    for (const page of context.pages) queue.add(page)
    queue.take()
  })
  // A type assertion, because the compiler does not follow assignments in closures.
  const filled = queue as PageQueue | null
  const written = filled?.shape.written() ?? []
  if (sync.write === 'upsert' && written.length > 0) await attempt(() => checkKey(written, sync.primary_key))
  const changes =
    existing === null
      ? await describeCreation(session, target, written)
      : [...describeRewrite(context, target), ...(filled?.takeChanges().map(inFuture) ?? [])]
  if (existing !== null && sync.write === 'upsert' && !(await hasUnique(session, target, sync.primary_key)))
    changes.push(`creates a unique index on ${sync.primary_key.join(', ')}`)
  problems.push(...(filled?.report() ?? []))
  return { columns: written.map(({ name, type }) => describeColumn(name, type)), changes, problems }
}

const inFuture = (change: string): string => change.replace(/^added/, 'adds').replace(/^widened/, 'widens')

async function describeCreation(
  session: Session,
  target: TableName,
  written: readonly TableColumn[],
): Promise<string[]> {
  const [row] = await session.query('SELECT to_regnamespace($1) IS NOT NULL AS found', [quoteName(target.schema)], {
    found: readBoolean,
  })
  const schema = row?.found ? [] : [`creates schema ${target.schema}`]
  return written.length === 0 ? schema : [...schema, `creates table ${formatStream(target)}`]
}

function describeRewrite({ sync }: PreviewContext<object>, target: TableName): string[] {
  return sync.write === 'replace' ? [`replaces all rows of ${formatStream(target)}`] : []
}
