/** Describes what a stream reads: a table, a view or a query, with its columns and key. */
import { ConnectorError } from '../../contract.ts'
import type { Client } from '../shared/client.ts'
import { codeOf } from '../shared/errors.ts'
import { formatStream, quoteTable, splitStream, type TableName } from '../shared/names.ts'
import { orNull, readFlag, readInteger, readText } from '../shared/values.ts'
import { type SourceColumn, toSourceColumn } from './column.ts'

export interface Relation {
  /** A FROM item with the alias t. */
  from: string
  columns: SourceColumn[]
  /** Columns that have no text. */
  unreadable: string[]
  /** Orders the rows; in ClickHouse several rows may share it. */
  primaryKey: string[]
  /** Null if the server does not know. */
  estimatedRows: number | null
}

export interface StreamChoices {
  queries: Readonly<Record<string, string>>
  binaryColumns: readonly string[]
  final: boolean
}

const systemDatabases = "'system', 'information_schema', 'INFORMATION_SCHEMA'"

export async function listRelations(client: Client, databases: readonly string[]): Promise<string[]> {
  const chosen = databases.length === 0 ? '' : "AND has(splitByChar('\\0', {databases:String}), database)"
  const rows = await client.query(
    `SELECT database, name FROM system.tables WHERE database NOT IN (${systemDatabases}) AND NOT is_temporary
     AND NOT startsWith(name, '.inner') AND NOT startsWith(name, '_sluice_') ${chosen} ORDER BY database, name`,
    { database: readText, table: readText },
    databases.length === 0 ? {} : { databases: databases.map(escapeName).join('\\0') },
  )
  return rows.map((name) => formatStream(name, client.target.database))
}

const escapeName = (name: string): string =>
  name.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n')

export async function describeStream(client: Client, stream: string, choices: StreamChoices): Promise<Relation> {
  const query = Object.hasOwn(choices.queries, stream) ? choices.queries[stream] : undefined
  return query === undefined
    ? describeTable(client, stream, choices)
    : describeQuery(client, { stream, query, binary: choices.binaryColumns })
}

function nameOf(stream: string, database: string): TableName {
  const parts = splitStream(stream)
  if (parts.length === 1) return { database, table: parts[0]! }
  if (parts.length === 2) return { database: parts[0]!, table: parts[1]! }
  throw new ConnectorError(
    'config',
    `The stream ${stream} has ${parts.length} parts; clickhouse streams are table, database.table or the name of a query`,
  )
}

/** Engines that merge rows in the background: what a reader sees without FINAL depends on how far that is. */
const MERGING = /(Replacing|Collapsing|Summing|Aggregating|Coalescing|Graphite)\w*MergeTree$/

async function describeTable(client: Client, stream: string, choices: StreamChoices): Promise<Relation> {
  const name = nameOf(stream, client.target.database)
  const params = { database: escapeName(name.database), table: escapeName(name.table) }
  const [table] = await client.query(
    'SELECT engine, total_rows FROM system.tables WHERE database = {database:String} AND name = {table:String}',
    { engine: readText, rows: orNull(readInteger) },
    params,
  )
  if (table === undefined)
    throw new ConnectorError(
      'config',
      `There is no table, view or query ${stream} that this user may read; list the streams to see which exist`,
    )
  const found = await client.query(
    `SELECT name, type, comment, is_in_primary_key FROM system.columns
     WHERE database = {database:String} AND table = {table:String} AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL')
     ORDER BY position`,
    { name: readText, type: readText, comment: readText, key: readFlag },
    params,
  )
  const final = choices.final && MERGING.test(table.engine)
  return {
    from: `${quoteTable(name)} AS t${final ? ' FINAL' : ''}`,
    ...readColumns(found, choices.binaryColumns),
    primaryKey: found.filter(({ key }) => key).map((column) => column.name),
    estimatedRows: table.rows,
  }
}

function readColumns(
  found: readonly { name: string; type: string; comment?: string }[],
  binary: readonly string[],
): Pick<Relation, 'columns' | 'unreadable'> {
  const all = found.map((column) => ({ name: column.name, column: toSourceColumn(column, binary) }))
  return {
    columns: all.flatMap(({ column }) => (column === null ? [] : [column])),
    unreadable: all.filter(({ column }) => column === null).map(({ name }) => name),
  }
}

async function describeQuery(
  client: Client,
  { stream, query, binary }: { stream: string; query: string; binary: readonly string[] },
): Promise<Relation> {
  // On lines of its own, so that a comment at its end does not reach beyond it.
  const from = `(\n${trimStatement(query)}\n)`
  const columns = await client
    .query(`DESCRIBE TABLE ${from}`, { name: readText, type: readText }, {}, { describe_compact_output: 1 })
    .catch((error: Error) => {
      const number = codeOf(error)
      if (number === undefined || number === 497) throw error
      const message = `The query ${stream} cannot be run: ${error.message}. It must be one SELECT`
      throw new ConnectorError('config', message, { cause: error })
    })
  return { from: `${from} AS t`, ...readColumns(columns, binary), primaryKey: [], estimatedRows: null }
}

/** Removes whitespace and semicolons at the end. A regular expression would take quadratic time on long runs of blanks. */
function trimStatement(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === ';' || text[end - 1]!.trim() === '')) end -= 1
  return text.slice(0, end)
}
