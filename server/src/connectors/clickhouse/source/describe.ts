/** Describes a stream before it is read: columns, primary key, possible cursor columns and estimated rows. */
import { type Column, ConnectorError, type StreamDescription } from '../../contract.ts'
import type { Client } from '../shared/client.ts'
import { ServerError } from '../shared/errors.ts'
import { describeColumn } from './column.ts'
import { describeStream, type Relation, type StreamChoices } from './relation.ts'

/** Among many streams, one that fails does not hide the others: its description is left empty. */
export async function describeAll(
  client: Client,
  streams: readonly string[],
  choices: StreamChoices,
): Promise<StreamDescription[]> {
  const described: StreamDescription[] = []
  for (const stream of streams) {
    try {
      described.push(toDescription(stream, await describeStream(client, stream, choices)))
    } catch (error) {
      const own = error instanceof ServerError || error instanceof ConnectorError
      if (streams.length === 1 || !own) throw error
      described.push({ stream, columns: null, primary_key: [], cursor_fields: [], estimated_rows: null })
    }
  }
  return described
}

function toDescription(stream: string, { columns, primaryKey, estimatedRows }: Relation): StreamDescription {
  const described = columns.map((column) => describeColumn(column, column.name))
  return {
    stream,
    columns: described,
    primary_key: primaryKey,
    cursor_fields: findCursorFields(described, primaryKey),
    estimated_rows: estimatedRows,
  }
}

const times = ['timestamptz', 'timestamp', 'date']
const integers = ['int64', 'int32', 'int16', 'decimal(20,0)']

/** Times first, because they show changes too; then a numeric key, which only shows new rows. */
function findCursorFields(columns: readonly Column[], primaryKey: readonly string[]): string[] {
  const ofTypes = (types: readonly string[]) =>
    types.flatMap((type) => columns.filter((column) => column.type === type).map(({ name }) => name))
  const key = primaryKey.length === 1 ? ofTypes(integers).filter((name) => name === primaryKey[0]) : []
  return [...ofTypes(times), ...key]
}
