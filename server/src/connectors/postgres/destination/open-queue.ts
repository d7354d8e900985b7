/** The queue of a load, shaped after the tables that there are. */
import type { Column, LoadContext } from '../../contract.ts'
import { quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { keptType } from '../shared/type-names.ts'
import { type ColumnTypes, toTypes } from './load-tables.ts'
import { checkKey } from './merge.ts'
import { takesNative } from './native-columns.ts'
import { createPageQueue, type PageQueue, type QueueOptions } from './page-queue.ts'
import { ordinalColumn, readColumns, readGeneratedColumns, type TableColumn } from './table.ts'

/** `into` is where the rows of a checkpoint go: the target, or the stage. `have` are its columns. */
export async function openQueue(
  session: Session,
  context: LoadContext,
  target: TableName,
  into: TableName,
): Promise<{ queue: PageQueue; have: ColumnTypes | null }> {
  const { sync, schema, encoding, columns } = context
  const existing = (await readColumns(session, target)) ?? schema?.map(keptColumn) ?? null
  const have = await readColumns(session, into)
  const options: QueueOptions = {
    encoding,
    declared: columns,
    // Rows that an earlier attempt staged have shaped the stage already.
    existing: into !== target && have !== null ? joinColumns(existing, have) : existing,
    generated: await readGeneratedColumns(session, target),
    contract: sync.schema_change,
  }
  const native = await takesNative(session, context, options, have === null ? null : quoteTable(into))
  if (native) context.log.debug('The rows travel in binary form, because both tables have the same types.')
  const queue = createPageQueue(options, native)
  if (sync.write === 'upsert' && encoding === 'tsv') checkKey(queue.shape.written(), sync.primary_key)
  return { queue, have: toTypes(have) }
}

const keptColumn = (column: Column): TableColumn => ({ name: column.name, type: keptType(column) })

/** The second list decides where both have a column: the stage was widened on from the table. */
function joinColumns(first: readonly TableColumn[] | null, second: readonly TableColumn[]): TableColumn[] {
  const all = new Map([...(first ?? []), ...second].map((column) => [column.name, column]))
  all.delete(ordinalColumn)
  return [...all.values()]
}
