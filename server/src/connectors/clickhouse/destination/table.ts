/** Reads and changes the shape of a table. */
import { ConnectorError } from '../../contract.ts'
import type { ColumnType } from '../../types/column-types.ts'
import type { Client } from '../shared/client.ts'
import { code, codeOf } from '../shared/errors.ts'
import { quoteName, quoteTable, quoteText, type TableName } from '../shared/names.ts'
import { readInteger, readText } from '../shared/values.ts'
import { columnSql, commentOf, existingColumn, type TableColumn } from './columns.ts'

/** Which row of a key is the newest, in tables for upsert. */
export const VERSION = '_sluice_version'

const CONVERTING = 'sluice:from:'
/** Waits until the rows have been rewritten, which a change of a type does in the background otherwise. */
const WAIT = { alter_sync: 1, mutations_sync: 1 }

export interface TableFacts {
  name: TableName
  /** Stays with the table when it is renamed or exchanged. */
  uuid: string
  engine: string
  /** The engine with its arguments, keys and settings. */
  definition: string
  sortingKey: string[]
  /** Materialized views that take what is inserted. */
  views: number
  columns: TableColumn[]
  /** Columns that the server fills. */
  generated: Set<string>
}

const paramsOf = ({ database, table }: TableName): Record<string, string> => ({
  database: escapeParam(database),
  table: escapeParam(table),
})

const escapeParam = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n')

/** Null if there is no such table. Finishes what was cut off, unless `settle` is false: then it only looks. */
export async function readTable(
  client: Client,
  name: TableName,
  { settle = true }: { settle?: boolean } = {},
): Promise<TableFacts | null> {
  const params = paramsOf(name)
  const [table] = await client.query(
    `SELECT toString(uuid), engine, engine_full, sorting_key, length(dependencies_table) FROM system.tables
     WHERE database = {database:String} AND name = {table:String}`,
    { uuid: readText, engine: readText, definition: readText, sorting: readText, views: readInteger },
    params,
  )
  if (table === undefined) return null
  const found = await client.query(
    `SELECT name, type, default_kind, comment FROM system.columns
     WHERE database = {database:String} AND table = {table:String} ORDER BY position`,
    { name: readText, type: readText, kind: readText, comment: readText },
    params,
  )
  const isGenerated = ({ kind }: { kind: string }): boolean => ['MATERIALIZED', 'ALIAS', 'EPHEMERAL'].includes(kind)
  const { uuid, engine, definition, sorting, views } = table
  const facts: TableFacts = {
    name,
    uuid,
    engine,
    definition,
    views,
    sortingKey: splitKey(sorting),
    columns: found
      .filter((column) => !isGenerated(column))
      .map((each) => existingColumn(each.name, each.type, each.comment)),
    generated: new Set(found.filter(isGenerated).map((column) => column.name)),
  }
  for (const { name: column, comment } of found)
    if (settle && comment.startsWith(CONVERTING)) await finishConversion(client, facts, column, comment)
  return facts
}

/** Names, or expressions that no name equals. */
function splitKey(text: string): string[] {
  const inner = /^\(([^()]*)\)$/.exec(text)?.[1] ?? text
  return inner === '' ? [] : inner.split(', ').map((part) => part.replace(/^`([^`\\]*)`$/, '$1'))
}

const FAMILY = /^(?:Replacing|Summing|Aggregating|Collapsing|VersionedCollapsing|Coalescing|Graphite)?MergeTree$/

/** Tables that rows can be loaded into exactly once. */
export function checkEngine({ name, engine }: TableFacts): void {
  if (FAMILY.test(engine)) return
  const what = /View$/.test(engine) ? `is a view` : `is a table of the engine ${engine}`
  const advice = /^(Replicated|Shared)/.test(engine)
    ? 'replicated tables, and with them ClickHouse Cloud, are not supported'
    : 'give the name of a table of the MergeTree family, or of one to be created'
  throw new ConnectorError('config', `${name.table} ${what}; ${advice}`)
}

export interface TableChanges {
  added: readonly TableColumn[]
  widened: readonly { from: TableColumn; to: TableColumn }[]
}

/** Adds and widens columns. Values whose text differs from type to type are rewritten. */
export async function alterTable(client: Client, name: TableName, { added, widened }: TableChanges): Promise<void> {
  for (const { from, to } of widened)
    if (from.neutral === 'bytes' || to.neutral === 'bytes')
      throw new ConnectorError(
        'destination',
        `The column ${to.name} of ${name.table} holds bytes, and other values arrive for it; rename one of the two in config.columns`,
      )
  const noteOf = ({ from, to }: TableChanges['widened'][number]): string | null =>
    rewriteSql(from.neutral, to) === null ? null : `${CONVERTING}${from.neutral}:${to.neutral}`
  const steps = [
    ...added.map((column) => `ADD COLUMN IF NOT EXISTS ${columnSql(column)}`),
    // The comment tells a later attempt that the rewriting has to be finished.
    ...widened.map((change) => `MODIFY COLUMN ${columnSql(change.to, noteOf(change) ?? undefined)}`),
  ]
  if (steps.length === 0) return
  await client.run({ sql: `ALTER TABLE ${quoteTable(name)} ${steps.join(', ')}`, settings: WAIT })
  for (const change of widened) {
    const note = noteOf(change)
    if (note !== null) await convert(client, name, change.to, note)
  }
}

/** How the text of the old values is written in the new type; null if ClickHouse writes it so by itself. */
function rewriteSql(from: ColumnType, to: TableColumn): { value: string; where: string } | null {
  if (to.neutral !== 'text' && to.neutral !== 'json') return null
  const column = quoteName(to.name)
  const quote = (text: string): string => (to.neutral === 'json' ? `concat('"', ${text}, '"')` : text)
  if (from === 'timestamp' || from === 'timestamptz') {
    const trimmed = `replaceRegexpOne(replaceRegexpOne(${column}, '(\\\\.\\\\d*?)0+$', '\\\\1'), '\\\\.$', '')`
    const iso = `replaceOne(${trimmed}, ' ', 'T')`
    return {
      value: quote(from === 'timestamptz' ? `concat(${iso}, 'Z')` : iso),
      where: `match(${column}, '^\\\\d{4}-\\\\d\\\\d-\\\\d\\\\d \\\\d\\\\d:\\\\d\\\\d:\\\\d\\\\d(\\\\.\\\\d+)?$')`,
    }
  }
  if (to.neutral === 'json' && (from === 'date' || from === 'uuid' || from === 'time'))
    return { value: quote(column), where: `NOT startsWith(${column}, '"')` }
  return null
}

async function convert(client: Client, name: TableName, column: TableColumn, note: string): Promise<void> {
  const [from] = note.slice(CONVERTING.length).split(':') as [ColumnType]
  const rewrite = rewriteSql(from, column)
  const table = quoteTable(name)
  if (rewrite !== null)
    await client.run({
      sql: `ALTER TABLE ${table} UPDATE ${quoteName(column.name)} = ${rewrite.value} WHERE ${rewrite.where}`,
      settings: WAIT,
    })
  await client.run({
    sql: `ALTER TABLE ${table} COMMENT COLUMN ${quoteName(column.name)} ${quoteText(commentOf(column))}`,
    settings: WAIT,
  })
}

/** What an attempt that was lost in the middle has left. */
async function finishConversion(client: Client, facts: TableFacts, name: string, note: string): Promise<void> {
  const column = facts.columns.find((each) => each.name === name)
  const to = note.slice(CONVERTING.length).split(':')[1] as ColumnType
  if (column === undefined || (to !== 'text' && to !== 'json')) return
  column.neutral = to
  await convert(client, facts.name, column, note)
}

export async function countRows(client: Client, name: TableName): Promise<number> {
  const [row] = await client.query(`SELECT count() FROM ${quoteTable(name)}`, { rows: readInteger })
  return row?.rows ?? 0
}

/** The tables of a database whose names begin so. */
export async function listTables(client: Client, database: string, prefix: string): Promise<string[]> {
  const rows = await client.query(
    'SELECT name FROM system.tables WHERE database = {database:String} AND startsWith(name, {prefix:String})',
    { name: readText },
    { database: escapeParam(database), prefix },
  )
  return rows.map(({ name }) => name)
}

export async function dropTable(client: Client, name: TableName): Promise<void> {
  const sql = `DROP TABLE IF EXISTS ${quoteTable(name)}`
  try {
    await client.run({ sql })
  } catch (error) {
    if (codeOf(error) !== code.tooLargeToDrop) throw error
    await client.run({ sql, settings: { max_table_size_to_drop: 0 } })
  }
}
