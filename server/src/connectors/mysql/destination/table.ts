/**
 * Reads and changes the shape of a table. Every statement here ends the open transaction, as DDL does in MySQL, so none
 * is used inside of one.
 */
import { ConnectorError } from '../../contract.ts'
import { quoteName, quoteTable, quoteText, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readText } from '../shared/values.ts'
import { asKeys, columnSql, existingColumn, type TableColumn } from './columns.ts'
import { withLock } from './locks.ts'

const CONVERTING = 'sluice:from:'

/**
 * With constants the catalog looks the very table up. In a join it would compare names without case and accents, and
 * take `Orders` for `orders`.
 */
const whereOf = ({ database, table }: TableName, prefix = ''): string =>
  `${prefix}TABLE_SCHEMA = ${quoteText(database)} AND ${prefix}TABLE_NAME = ${quoteText(table)}`

export interface TableFacts {
  columns: TableColumn[]
  /** Columns that the server fills. */
  generated: Set<string>
}

/** Null if there is no such table. `settle` completes a conversion that a crash interrupted. */
export async function readTable(
  session: Session,
  name: TableName,
  { settle = true }: { settle?: boolean } = {},
): Promise<TableFacts | null> {
  const rows = await session.query(
    `SELECT c.COLUMN_NAME, c.COLUMN_TYPE, c.CHARACTER_SET_NAME, c.COLUMN_COMMENT, c.EXTRA, t.ENGINE, t.TABLE_TYPE
     FROM information_schema.TABLES t JOIN information_schema.COLUMNS c ON ${whereOf(name, 'c.')}
     WHERE ${whereOf(name, 't.')} ORDER BY c.ORDINAL_POSITION`,
    {
      name: readText,
      type: readText,
      charset: orNull(readText),
      comment: readText,
      extra: readText,
      engine: orNull(readText),
      kind: readText,
    },
  )
  const [first] = rows
  if (first === undefined) return null
  if (first.kind.includes('VIEW'))
    throw new ConnectorError('config', `${name.table} is a view; give the name of a table, or of one to be created`)
  if (first.engine !== 'InnoDB')
    throw new ConnectorError(
      'config',
      `${name.table} is a table of the engine ${first.engine}, which has no transactions, so rows could be lost or doubled; change it with ALTER TABLE ${quoteName(name.table)} ENGINE = InnoDB`,
    )
  const isGenerated = (extra: string): boolean => /\bGENERATED\b/i.test(extra) && !/DEFAULT_GENERATED/i.test(extra)
  const columns = rows
    .filter(({ extra }) => !isGenerated(extra))
    .map(({ name: column, type, charset, comment }) => {
      const original = comment.startsWith(CONVERTING) ? '' : comment
      return existingColumn(column, type, {
        isBinary: charset === 'binary',
        isJson: type === 'json',
        comment: original,
      })
    })
  for (const { name: column, comment } of rows)
    if (settle && comment.startsWith(CONVERTING))
      await finishConversion(session, name, columns.find((each) => each.name === column)!, comment)
  return {
    columns,
    generated: new Set(rows.filter(({ extra }) => isGenerated(extra)).map(({ name: column }) => column)),
  }
}

/** Texts are compared by their bytes, without padding: a key must not take two texts for one. */
export function exactCollation(session: Session): string {
  return session.server.maria ? 'utf8mb4_nopad_bin' : 'utf8mb4_0900_bin'
}

export function tableOptions(session: Session): string {
  return `ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE ${exactCollation(session)}`
}

export async function createTable(
  session: Session,
  name: TableName,
  columns: readonly TableColumn[],
  key: readonly string[] = [],
): Promise<TableColumn[]> {
  const made = asKeys(columns, key)
  const parts = made.map((column) =>
    key.includes(column.name) ? columnSql(column).replace(' NULL', ' NOT NULL') : columnSql(column),
  )
  if (key.length > 0) parts.push(`PRIMARY KEY (${key.map(quoteName).join(', ')})`)
  await session.run(`CREATE TABLE IF NOT EXISTS ${quoteTable(name)} (${parts.join(', ')}) ${tableOptions(session)}`)
  return made
}

export interface ShapeChanges {
  added: TableColumn[]
  widened: { from: TableColumn; to: TableColumn }[]
}

/** Adds and widens columns. Values whose text differs from type to type are rewritten. */
export async function alterTable(
  session: Session,
  signal: AbortSignal,
  name: TableName,
  { added, widened }: ShapeChanges,
): Promise<void> {
  const steps = [
    ...added.map((column) => `ADD COLUMN ${columnSql(column)}`),
    ...widened.map(({ from, to }) => {
      const rewrite = rewriteSql(from, to)
      // The comment tells a later attempt that the rewriting has to be finished.
      return `MODIFY COLUMN ${columnSql(to, rewrite === null ? undefined : `${CONVERTING}${from.neutral}:${to.neutral}`)}`
    }),
  ]
  if (steps.length === 0) return
  for (const { from, to } of widened)
    if (from.neutral === 'bytes' || to.neutral === 'bytes')
      throw new ConnectorError(
        'destination',
        `The column ${to.name} of ${name.table} holds bytes, and other values arrive for it; rename one of the two in config.columns`,
      )
  await withLock(session, signal, name.table, () => session.run(`ALTER TABLE ${quoteTable(name)} ${steps.join(', ')}`))
  for (const { from, to } of widened)
    if (rewriteSql(from, to) !== null)
      await finishConversion(session, name, to, `${CONVERTING}${from.neutral}:${to.neutral}`)
}

/** How the text of the old values is written in the new type; null if MySQL writes it so by itself. Twice is as once. */
function rewriteSql(from: Pick<TableColumn, 'neutral' | 'name'>, to: TableColumn): string | null {
  if (to.neutral !== 'text' && to.neutral !== 'json') return null
  const column = quoteName(to.name)
  const quote = (text: string): string =>
    to.neutral === 'json' ? `IF(${column} LIKE '"%', ${column}, CONCAT('"', ${text}, '"'))` : text
  const trimmed = `IF(LOCATE('.', ${column}), TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM ${column})), ${column})`
  if (from.neutral === 'boolean') return `CASE ${column} WHEN '1' THEN 'true' WHEN '0' THEN 'false' ELSE ${column} END`
  if (from.neutral === 'timestamp') return quote(`REPLACE(${trimmed}, ' ', 'T')`)
  if (from.neutral === 'timestamptz')
    return quote(`IF(${column} LIKE '%Z', ${column}, CONCAT(REPLACE(${trimmed}, ' ', 'T'), 'Z'))`)
  if (from.neutral === 'date' || from.neutral === 'uuid' || from.neutral === 'time')
    return to.neutral === 'json' ? quote(column) : null
  return from.neutral.startsWith('decimal') ? trimmed : null
}

async function finishConversion(session: Session, name: TableName, column: TableColumn, note: string): Promise<void> {
  const [from, to] = note.slice(CONVERTING.length).split(':') as [TableColumn['neutral'], TableColumn['neutral']]
  column.neutral = to
  const expression = rewriteSql({ neutral: from, name: column.name }, column)
  if (expression !== null)
    await session.run(
      `UPDATE ${quoteTable(name)} SET ${quoteName(column.name)} = ${expression} WHERE ${quoteName(column.name)} IS NOT NULL`,
    )
  await session.run(`ALTER TABLE ${quoteTable(name)} MODIFY COLUMN ${columnSql(column)}`)
}

/** The columns of the unique indexes, by the index's name. */
export async function readUniqueIndexes(session: Session, name: TableName): Promise<Map<string, string[]>> {
  const rows = await session.query(
    `SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS
     WHERE ${whereOf(name)} AND NON_UNIQUE = 0 AND COLUMN_NAME IS NOT NULL ORDER BY INDEX_NAME, SEQ_IN_INDEX`,
    { index: readText, column: readText },
  )
  const found = new Map<string, string[]>()
  for (const { index, column } of rows) found.set(index, [...(found.get(index) ?? []), column])
  return found
}

export async function tableExists(session: Session, name: TableName): Promise<boolean> {
  const rows = await session.query(`SELECT TABLE_NAME FROM information_schema.TABLES WHERE ${whereOf(name)}`, {
    name: readText,
  })
  return rows.length > 0
}

/** The tables of a database whose names begin so. */
export async function listTables(session: Session, database: string, prefix: string): Promise<string[]> {
  const rows = await session.query(
    `SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ${quoteText(database)} AND LEFT(TABLE_NAME, ${prefix.length}) = ${quoteText(prefix)}`,
    { name: readText },
  )
  return rows.map(({ name }) => name)
}
