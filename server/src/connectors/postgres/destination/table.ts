/** Reads and changes the shape of a table in the target database. */
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { normalizeType } from '../shared/type-names.ts'
import { orNull, readText } from '../shared/values.ts'

/** A column with PostgreSQL's name for its type (type-names.ts: one name per type). */
export interface TableColumn {
  name: string
  type: string
  /** The type when the table was inspected, if only that type may become `type`: others may have widened it since. */
  was?: string | undefined
}

/** Where rows are loaded. */
export interface LoadTable {
  name: TableName
  /** As SQL writes it; a temporary table has no schema. */
  sql: string
  /** Null while it does not exist. */
  columns: Map<string, string> | null
  create(columns: readonly TableColumn[]): Promise<Map<string, string>>
}

/** Orders records of which the last one per key wins, because their physical order does not. */
export const ordinalColumn = '_sluice_n'

/** Null if there is no such table. Generated columns are left out, because they cannot be written. */
export async function readColumns(session: Session, name: TableName): Promise<TableColumn[] | null> {
  const rows = await session.query(
    `SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'f', 'v') ORDER BY a.attnum`,
    [name.schema, name.table],
    { name: orNull(readText), type: orNull(readText) },
  )
  if (rows.length === 0) return null
  return rows.flatMap(({ name, type }) => (name === null || type === null ? [] : [{ name, type: normalizeType(type) }]))
}

/** Columns that the server generates and that cannot be written. */
export async function readGeneratedColumns(session: Session, name: TableName): Promise<Set<string>> {
  return readColumnNames(session, name, "a.attgenerated <> ''")
}

/** GENERATED ALWAYS identity columns: they take a value only on INSERT with OVERRIDING. */
export async function readAlwaysIdentities(session: Session, name: TableName): Promise<Set<string>> {
  return readColumnNames(session, name, "a.attidentity = 'a'")
}

async function readColumnNames(session: Session, name: TableName, condition: string): Promise<Set<string>> {
  const rows = await session.query(
    `SELECT a.attname::text AS name FROM pg_attribute a
     WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND ${condition}`,
    [quoteTable(name)],
    { name: readText },
  )
  return new Set(rows.map((row) => row.name))
}

/** INSERT … SELECT of the columns. With no columns, the rows consist of defaults. */
export function insertSql(target: TableName, names: readonly string[], from: { list?: string; rest: string }): string {
  const list = names.map(quoteName).join(', ')
  const columns = names.length === 0 ? '' : ` (${list}) OVERRIDING SYSTEM VALUE`
  return `INSERT INTO ${quoteTable(target)}${columns} SELECT ${from.list ?? list} ${from.rest}`
}

/** All rows of a table, or those that fulfil a condition on `s`. */
export function restOf(from: string, condition: string | null): { rest: string } {
  return { rest: `FROM ${from} AS s${condition === null ? '' : ` WHERE ${condition}`}` }
}

export function createTableSql(
  name: TableName,
  columns: readonly TableColumn[],
  primaryKey: readonly string[] = [],
): string {
  const parts = columns.map((column) => `${quoteName(column.name)} ${column.type}`)
  if (primaryKey.length > 0) parts.push(`PRIMARY KEY (${primaryKey.map(quoteName).join(', ')})`)
  return `CREATE TABLE ${quoteTable(name)} (${parts.join(', ')})`
}

export function addColumnSql(name: TableName, column: TableColumn): string {
  return `ALTER TABLE ${quoteTable(name)} ADD COLUMN IF NOT EXISTS ${quoteName(column.name)} ${column.type}`
}

export function widenColumnSql(name: TableName, column: TableColumn, from: string): string {
  const quoted = quoteName(column.name)
  return `ALTER TABLE ${quoteTable(name)} ALTER COLUMN ${quoted} TYPE ${column.type} USING ${convert(quoted, from, column.type)}`
}

function convert(column: string, from: string, to: string): string {
  if (to === 'jsonb') return `to_jsonb(${column})`
  if (to === 'text' && (from === 'timestamp' || from === 'timestamptz')) {
    // As it was written in the records: ISO 8601 with a T, and Z for UTC.
    return `regexp_replace(to_json(${column}) #>> '{}', '\\+00:00$', 'Z')`
  }
  // A float becomes the decimal in which it is written; a direct cast would round it to fifteen digits.
  if (to.startsWith('numeric') && from.startsWith('float')) return `${column}::text::${to}`
  return `${column}::${to}`
}
