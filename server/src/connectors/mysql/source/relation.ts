/** Describes what a stream reads: a table, a view or a query, with its columns and key. */
import { ConnectorError } from '../../contract.ts'
import { errnoOf } from '../shared/errors.ts'
import { formatStream, quoteTable, quoteText, splitStream, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readInteger, readText } from '../shared/values.ts'
import { type SourceColumn, type TypeChoices, toSourceColumn } from './column.ts'
import { typeOfDefinition } from './wire-types.ts'

export interface Relation {
  /** A FROM item. */
  from: string
  columns: SourceColumn[]
  primaryKey: string[]
  /** From the server's statistics; null if it has none. */
  estimatedRows: number | null
  /** Null for views and queries. */
  engine: string | null
}

export interface StreamChoices {
  database: string | undefined
  queries: Readonly<Record<string, string>>
  types: TypeChoices
}

const systemDatabases = "'information_schema', 'mysql', 'performance_schema', 'sys'"

export async function listRelations(
  session: Session,
  own: string | undefined,
  databases: readonly string[],
): Promise<string[]> {
  const chosen = databases.length === 0 ? '' : `AND TABLE_SCHEMA IN (${databases.map(quoteText).join(', ')})`
  const rows = await session.query(
    `SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
     WHERE TABLE_SCHEMA NOT IN (${systemDatabases}) AND TABLE_TYPE IN ('BASE TABLE', 'VIEW', 'SYSTEM VERSIONED')
       AND TABLE_NAME NOT LIKE '\\\\_sluice\\\\_%' ${chosen} ORDER BY TABLE_SCHEMA, TABLE_NAME`,
    { database: readText, table: readText },
  )
  return rows.map((name) => formatStream(name, own))
}

export async function describeStream(session: Session, stream: string, choices: StreamChoices): Promise<Relation> {
  const { queries } = choices
  const query = Object.hasOwn(queries, stream) ? queries[stream] : undefined
  return query === undefined ? describeTable(session, stream, choices) : describeQuery(session, stream, query, choices)
}

function nameOf(stream: string, database: string | undefined): TableName {
  const parts = splitStream(stream)
  if (parts.length === 2) return { database: parts[0]!, table: parts[1]! }
  if (parts.length > 2)
    throw new ConnectorError(
      'config',
      `The stream ${stream} has ${parts.length} parts; mysql streams are table, database.table or the name of a query`,
    )
  if (database === undefined)
    throw new ConnectorError(
      'config',
      `The stream ${stream} names no database; write database.table, or set \`database\``,
    )
  return { database, table: parts[0]! }
}

async function describeTable(session: Session, stream: string, choices: StreamChoices): Promise<Relation> {
  const name = nameOf(stream, choices.database)
  const where = `TABLE_SCHEMA = ${quoteText(name.database)} AND TABLE_NAME = ${quoteText(name.table)}`
  const [table] = await session.query(
    `SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS FROM information_schema.TABLES WHERE ${where}`,
    { database: readText, table: readText, type: readText, engine: orNull(readText), rows: orNull(readInteger) },
  )
  if (table === undefined)
    throw new ConnectorError(
      'config',
      `There is no table, view or query ${stream} that this user may read; list the streams to see which exist`,
    )
  const columns = await session.query(
    `SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, COLUMN_COMMENT FROM information_schema.COLUMNS
     WHERE ${where} ORDER BY ORDINAL_POSITION`,
    { name: readText, type: readText, charset: orNull(readText), nullable: readText, comment: readText },
  )
  const key = await session.query(
    `SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE ${where} AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX`,
    { name: readText },
  )
  const json = await findJsonColumns(session, table)
  const isView = table.type.includes('VIEW')
  const toColumn = ({ name: column, type, charset, nullable, comment }: (typeof columns)[number]): SourceColumn =>
    toSourceColumn(
      {
        name: column,
        type,
        isBinary: charset === 'binary',
        nullable: isView ? null : nullable === 'YES',
        isJson: json.has(column),
        comment,
      },
      choices.types,
    )
  return {
    from: quoteTable(name),
    columns: columns.map(toColumn),
    primaryKey: key.map(({ name: column }) => column),
    estimatedRows: isView ? null : table.rows,
    engine: isView ? null : table.engine,
  }
}

/**
 * In MariaDB, JSON is a longtext with a check of that form. Here the catalog compares names without case and accents,
 * so the name has to be the one that it has itself.
 */
async function findJsonColumns(session: Session, { database, table }: TableName): Promise<Set<string>> {
  if (!session.server.maria) return new Set()
  const rows = await session.query(
    `SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
     WHERE CONSTRAINT_SCHEMA = ${quoteText(database)} AND TABLE_NAME = ${quoteText(table)}
       AND BINARY TABLE_NAME = BINARY ${quoteText(table)} AND CHECK_CLAUSE LIKE 'json_valid(%'`,
    { clause: readText },
  )
  const names = rows.map(({ clause }) => /^json_valid\(`((?:[^`]|``)*)`\)$/.exec(clause)?.[1])
  return new Set(names.flatMap((name) => (name === undefined ? [] : [name.replaceAll('``', '`')])))
}

async function describeQuery(
  session: Session,
  stream: string,
  text: string,
  { types }: StreamChoices,
): Promise<Relation> {
  // On lines of its own, so that a comment at its end does not reach beyond it.
  const from = `(\n${trimStatement(text)}\n)`
  const definitions = await session.describe(`SELECT * FROM ${from} AS t LIMIT 0`).catch((error: Error) => {
    const number = errnoOf(error)
    if (number === undefined || number === 1142 || number === 1143) throw error
    const message = `The query ${stream} cannot be run: ${error.message}. It must be one SELECT`
    throw new ConnectorError('config', message, { cause: error })
  })
  const columns = definitions.map((definition) =>
    toSourceColumn({ name: definition.name, nullable: null, ...typeOfDefinition(definition) }, types),
  )
  return { from, columns, primaryKey: [], estimatedRows: null, engine: null }
}

/** Removes whitespace and semicolons at the end. A regular expression would take quadratic time on long runs of blanks. */
function trimStatement(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === ';' || text[end - 1]!.trim() === '')) end -= 1
  return text.slice(0, end)
}
