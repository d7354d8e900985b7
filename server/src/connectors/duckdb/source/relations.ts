/** The tables, views and queries of a file. */
import type { DuckDBConnection } from '@duckdb/node-api'
import { type NamedTable, requireSelect } from '../../allowed-select.ts'
import { type Column, ConnectorError } from '../../contract.ts'
import { type Relation, unknownStream } from '../../database-file/relation.ts'
import { quoteName, quoteText } from '../../duckdb.ts'
import { CATALOG } from '../database.ts'
import { fieldOf } from './types.ts'

export type Queries = Readonly<Record<string, string>>

interface Listed {
  stream: string
  schema: string
  table: string
  /** Null for views. */
  rows: number | null
}

async function listRelations(connection: DuckDBConnection): Promise<Listed[]> {
  const result = await connection.runAndReadAll(`
    SELECT schema_name, table_name, estimated_size FROM duckdb_tables() WHERE database_name = '${CATALOG}' AND NOT internal
    UNION ALL SELECT schema_name, view_name, NULL FROM duckdb_views() WHERE database_name = '${CATALOG}' AND NOT internal
    ORDER BY 1, 2`)
  return result.getRowsJson().map(([schema, table, rows]) => ({
    stream: nameStream(String(schema), String(table)),
    schema: String(schema),
    table: String(table),
    rows: rows === null ? null : Number(rows),
  }))
}

/** `table` in the schema main, else `schema.table`; a part with a dot or quote is in double quotes. */
function nameStream(schema: string, table: string): string {
  const part = (name: string): string => (/[."]/.test(name) || name === '' ? quoteName(name) : name)
  return schema === 'main' ? part(table) : `${part(schema)}.${part(table)}`
}

export async function listStreams(connection: DuckDBConnection, queries: Queries): Promise<string[]> {
  const tables = await listRelations(connection)
  return [...Object.keys(queries).sort(), ...tables.map(({ stream }) => stream)]
}

export async function describeStream(
  connection: DuckDBConnection,
  stream: string,
  queries: Queries,
): Promise<Relation> {
  const query = Object.hasOwn(queries, stream) ? queries[stream]! : undefined
  if (query !== undefined) return describeQuery(connection, stream, query)
  const relations = await listRelations(connection)
  const found = relations.find((candidate) => candidate.stream === stream)
  if (!found)
    throw unknownStream(
      stream,
      'table, view or query',
      relations.map((each) => each.stream),
    )
  const from = [CATALOG, found.schema, found.table].map(quoteName).join('.')
  const columns = await describeColumns(connection, from)
  return { stream, from, columns, primaryKey: await findKey(connection, found), rows: found.rows }
}

async function describeQuery(connection: DuckDBConnection, stream: string, text: string): Promise<Relation> {
  const query = trimStatement(text)
  // On lines of its own, so that a comment at its end does not reach beyond it.
  const from = `(\n${query}\n)`
  try {
    // Before it becomes a part of another statement: a text that closes the parenthesis itself could add statements.
    await requireOwnSelect(connection, query)
    return { stream, from, columns: await describeColumns(connection, from), primaryKey: [], rows: null }
  } catch (error) {
    const message = (error as Error).message.split('\n')[0]!.slice(0, 500)
    throw new ConnectorError('config', `The query ${stream} cannot be run: ${message}. It must be one SELECT`, {
      cause: error,
    })
  }
}

/** Nothing but the tables, views and functions of the file. */
async function requireOwnSelect(connection: DuckDBConnection, query: string): Promise<void> {
  const relations = await listRelations(connection)
  const macros = await connection.runAndReadAll(`
    SELECT lower(function_name) FROM duckdb_functions() WHERE database_name = '${CATALOG}' AND function_type = 'table_macro'`)
  await requireSelect(connection, query, {
    isTable: (named) => relations.some((relation) => isNamed(relation, named)),
    tableFunctions: macros.getRowsJson().map(([name]) => String(name)),
    known: 'a query can read the tables and views of the file',
    oneStatement: 'Only one statement that reads is allowed',
  })
}

/** `schema.table` may also mean `catalog.table`. */
function isNamed({ schema, table }: Listed, named: NamedTable): boolean {
  if (named.table !== table.toLowerCase() || !['', CATALOG].includes(named.catalog)) return false
  if (named.schema === schema.toLowerCase()) return true
  return schema === 'main' && named.catalog === '' && ['', CATALOG].includes(named.schema)
}

/** Removes whitespace and semicolons at the end. A regular expression would take quadratic time on long runs of blanks. */
function trimStatement(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === ';' || text[end - 1]!.trim() === '')) end -= 1
  return text.slice(0, end)
}

async function describeColumns(connection: DuckDBConnection, from: string): Promise<Column[]> {
  const result = await connection.runAndReadAll(`DESCRIBE SELECT * FROM ${from} AS t`)
  return result.getRowsJson().map(([name, native, nullable]) => {
    const { type } = fieldOf('', String(native))
    const column: Column = { name: String(name), type, native: { system: 'duckdb', type: String(native) } }
    return nullable === 'NO' ? { ...column, nullable: false } : column
  })
}

async function findKey(connection: DuckDBConnection, { schema, table }: Listed): Promise<string[]> {
  const result = await connection.runAndReadAll(`
    SELECT unnest(constraint_column_names) FROM duckdb_constraints()
     WHERE database_name = '${CATALOG}' AND schema_name = ${quoteText(schema)} AND table_name = ${quoteText(table)} AND constraint_type = 'PRIMARY KEY'`)
  return result.getRowsJson().map(([name]) => String(name))
}
