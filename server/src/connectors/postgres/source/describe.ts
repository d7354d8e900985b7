/** What a stream looks like before it is read: columns, key, columns that could be its cursor, and about how many rows. */
import type { Column, StreamDescription } from '../../contract.ts'
import type { Session } from '../shared/session.ts'
import { describeColumn } from '../shared/type-names.ts'
import { describeStream, type Relation } from './relation.ts'

/**
 * Of one stream a failure is told. Among many, a query that no longer runs does not hide the others: nothing is known of
 * it then.
 */
export async function describeAll(
  session: Session,
  streams: readonly string[],
  queries: Readonly<Record<string, string>>,
): Promise<StreamDescription[]> {
  const described: StreamDescription[] = []
  for (const stream of streams) {
    try {
      described.push(toDescription(stream, await describeStream(session, stream, queries)))
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

/** Times first, for they tell of changes too; then a key that is a number, which tells of new rows alone. */
function findCursorFields(columns: readonly Column[], primaryKey: readonly string[]): string[] {
  const ofTypes = (types: readonly string[]) =>
    types.flatMap((type) => columns.filter((column) => column.type === type).map(({ name }) => name))
  const key = primaryKey.length === 1 ? ofTypes(integers).filter((name) => name === primaryKey[0]) : []
  return [...ofTypes(times), ...key]
}
