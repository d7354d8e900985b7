/** A table, view or query of a database file, as a source describes and reads it. */
import { type Column, ConnectorError, type StreamDescription } from '../contract.ts'

export interface Relation {
  stream: string
  /** A FROM item. */
  from: string
  columns: Column[]
  primaryKey: string[]
  /** Null where only counting would tell. */
  rows: number | null
}

const times = ['timestamptz', 'timestamp', 'date']
const integers = ['int64', 'int32', 'int16', 'decimal(20,0)']

export function describeRelation({ stream, columns, primaryKey, rows }: Relation): StreamDescription {
  const ofTypes = (types: readonly string[]) =>
    types.flatMap((type) => columns.filter((column) => column.type === type).map(({ name }) => name))
  // Times first, because they show changes too; then a numeric key, which only shows new rows.
  const key = primaryKey.length === 1 ? ofTypes(integers).filter((name) => name === primaryKey[0]) : []
  const cursor_fields = [...ofTypes(times), ...key]
  return { stream, columns, primary_key: primaryKey, cursor_fields, estimated_rows: rows }
}

export function requireColumn({ columns }: Relation, name: string, setting: string): Column {
  const column = columns.find((candidate) => candidate.name === name)
  if (column !== undefined) return column
  throw new ConnectorError(
    'config',
    `config.${setting} names the column ${name}, which the stream does not have; it has ${columns.map((other) => other.name).join(', ')}`,
  )
}

export function unknownStream(stream: string, what: string, streams: readonly string[]): ConnectorError {
  const shown = streams.slice(0, 20).join(', ') || 'none'
  const more = streams.length > 20 ? ` and ${streams.length - 20} more` : ''
  return new ConnectorError('config', `The file has no ${what} ${stream.slice(0, 200)}; it has ${shown}${more}`)
}
