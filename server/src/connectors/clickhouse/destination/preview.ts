/** What a load would do to its table: the same decisions as a load, from statements that only look. */
import { ConnectorError, type LoadPreview, type PreviewContext } from '../../contract.ts'
import type { Client } from '../shared/client.ts'
import type { TableName } from '../shared/names.ts'
import { cutChunks } from './chunks.ts'
import { describeColumn } from './columns.ts'
import { describeChanges } from './publish.ts'
import { createRowEncoder, type RowEncoder } from './row-encoder.ts'
import { readTable, type TableFacts, VERSION } from './table.ts'
import { checkKey, checkTarget } from './target.ts'

export async function previewLoad(
  client: Client,
  context: PreviewContext<object>,
  target: TableName,
): Promise<LoadPreview> {
  const problems: string[] = []
  const attempt = <T>(work: () => T): T | null => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      problems.push(error.message)
      return null
    }
  }
  const found = await readTable(client, target, { settle: false })
  if (found !== null) attempt(() => checkTarget(found, context))
  const encoder = attempt(() => encodePages(context, found))
  const written = encoder?.shape.written() ?? []
  if (written.length > 0) attempt(() => checkKey(written, context))
  problems.push(...(encoder?.report() ?? []))
  const changes =
    written.length === 0 ? [] : listChanges(context, target, found, describeChanges(found?.columns ?? [], written))
  return { columns: written.map(describeColumn), changes, problems }
}

function encodePages({ sync, encoding, columns, pages }: PreviewContext<object>, table: TableFacts | null): RowEncoder {
  const encoder = createRowEncoder({
    encoding,
    declared: columns,
    existing: table?.columns.filter(({ name }) => name !== VERSION) ?? null,
    generated: table?.generated ?? new Set(),
    contract: sync.schema_change,
    key: sync.write === 'upsert' ? sync.primary_key : [],
  })
  for (const chunk of cutChunks(pages.map(({ bytes }) => bytes))) encoder.encode(chunk)
  return encoder
}

function listChanges(
  { sync }: PreviewContext<object>,
  { database, table }: TableName,
  found: TableFacts | null,
  changes: readonly string[],
): string[] {
  if (found === null) return [`creates table ${database}.${table}`]
  const rewrite = sync.write === 'replace' ? [`replaces all rows of ${database}.${table}`] : []
  return [...rewrite, ...changes.map((change) => change.replace(/^added/, 'adds').replace(/^widened/, 'widens'))]
}
