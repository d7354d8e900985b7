/** Describes a stream before it is read: columns, primary key, possible cursor columns and estimated rows. */
import type { Column, StreamDescription } from '../../contract.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { describeColumn } from '../shared/type-names.ts'
import { describeStream, type Relation } from './relation.ts'

/**
 * For a single stream a failure is reported. Among many, a query that fails does not hide the others: its description
 * is left empty.
 */
export async function describeAll(
  session: Session,
  streams: readonly string[],
  queries: Readonly<Record<string, string>>,
): Promise<StreamDescription[]> {
  const described: StreamDescription[] = []
  for (const stream of streams) {
    try {
      const relation = await inTransaction(session, () => describeStream(session, stream, queries))
      described.push(toDescription(stream, relation))
    } catch (error) {
      if (streams.length === 1) throw error
      described.push({ stream, columns: null, primary_key: [], cursor_fields: [], estimated_rows: null })
    }
  }
  return described
}

function toDescription(stream: string, { columns, primaryKey, estimatedRows }: Relation): StreamDescription {
  const described = columns.map(({ name, type, nullable }): Column => {
    const column = describeColumn(name, type.name)
    return nullable === null ? column : { ...column, nullable }
  })
  return {
    stream,
    columns: described,
    primary_key: primaryKey,
    cursor_fields: findCursorFields(described, primaryKey),
    estimated_rows: estimatedRows,
  }
}

const times = ['timestamptz', 'timestamp', 'date']
const integers = ['int64', 'int32', 'int16']

/** Times first, because they show changes too; then a numeric key, which only shows new rows. */
function findCursorFields(columns: readonly Column[], primaryKey: readonly string[]): string[] {
  const ofTypes = (types: readonly string[]) =>
    types.flatMap((type) => columns.filter((column) => column.type === type).map(({ name }) => name))
  const key = primaryKey.length === 1 ? ofTypes(integers).filter((name) => name === primaryKey[0]) : []
  return [...ofTypes(times), ...key]
}
