/** The one table of a file that the destination writes. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { doubledKey } from '../../database-file/build.ts'
import type { TableColumn, TablePlan } from '../../database-file/table-plan.ts'
import { iterate, quoteName, type Value } from '../database.ts'
import { KEY_INDEX } from '../source/relations.ts'
import { readColumn } from './columns.ts'

/** The columns of the table, or what is wrong with the file. Nothing but the table and its key may be in it. */
export function readTable(db: DatabaseSync, table: string): TableColumn[] | { fault: string } {
  const objects = [...iterate(db, 'SELECT type, name, tbl_name FROM sqlite_schema')]
  const own = objects.every(
    ([type, name, of]) =>
      of === table && ((type === 'table' && name === table) || (type === 'index' && name === KEY_INDEX)),
  )
  if (!own || objects.length === 0) return { fault: `it does not have the table ${table} alone` }
  const declared = [...iterate(db, `PRAGMA table_xinfo(${quoteName(table)})`)]
  const columns: TableColumn[] = []
  for (const [, name, type, notNull, fallback, key, hidden] of declared) {
    const column = readColumn(String(name), String(type))
    if (column === null || notNull !== 0n || fallback !== null || key !== 0n || hidden !== 0n)
      return { fault: `its column ${String(name).slice(0, 100)} is not one of ours` }
    columns.push(column)
  }
  return columns
}

const columnSql = ({ name, sql }: TableColumn): string => `${quoteName(name)} ${sql}`

export function createTable(db: DatabaseSync, table: string, columns: readonly TableColumn[]): void {
  // A table has at least one column. If no record ever had one, use the column that records with an id have.
  const given = columns.length > 0 ? columns.map(columnSql) : ['"_record_id" TEXT']
  db.exec(`CREATE TABLE ${quoteName(table)} (${given.join(', ')})`)
}

export function changeTable(db: DatabaseSync, table: string, { added, widened, columns }: TablePlan): void {
  if (widened.length > 0) rebuild(db, table, { added, widened, columns })
  else for (const column of added) db.exec(`ALTER TABLE ${quoteName(table)} ADD COLUMN ${columnSql(column)}`)
}

type Changes = Pick<TablePlan, 'added' | 'widened' | 'columns'>

/** SQLite cannot change a column's type, so the rows are copied. The table is dropped with its key. */
function rebuild(db: DatabaseSync, table: string, { added, widened, columns }: Changes): void {
  const copy = table === 'sluice_copy' ? 'sluice_copy_2' : 'sluice_copy'
  createTable(db, copy, columns)
  const kept = columns.filter((column) => !added.includes(column))
  const list = kept.map(({ name }) => quoteName(name)).join(', ')
  const converters = kept.map((column) => {
    const from = widened.find(({ to }) => to === column)?.from
    return from ? convertStored(from, column) : (value: Value): SQLInputValue => value
  })
  const insert = db.prepare(`INSERT INTO ${quoteName(copy)} (${list}) VALUES (${kept.map(() => '?').join(', ')})`)
  for (const row of iterate(db, `SELECT ${list} FROM ${quoteName(table)}`))
    insert.run(...row.map((value, at) => converters[at]!(value)))
  db.exec(`DROP TABLE ${quoteName(table)}; ALTER TABLE ${quoteName(copy)} RENAME TO ${quoteName(table)}`)
}

/** A stored value as a wider column has it. */
function convertStored(from: TableColumn, to: TableColumn): (value: Value) => SQLInputValue {
  if (to.type === 'json') return (value) => (value === null ? null : jsonOf(from, value))
  if (to.type === 'timestamp') return (value) => (value === null ? null : `${value} 00:00:00`)
  // Numbers stay numbers in a DECIMAL.
  return to.sql.endsWith('TEXT') ? (value) => (value === null ? null : textOf(from, value)) : (value) => value
}

function textOf({ type }: TableColumn, value: NonNullable<Value>): string {
  if (typeof value === 'object') return `\\x${Buffer.from(value).toString('hex')}`
  return type === 'boolean' ? String(value === 1n) : String(value)
}

function jsonOf(column: TableColumn, value: NonNullable<Value>): string {
  const text = textOf(column, value)
  const plain =
    column.type === 'boolean' || column.type === 'decimal' || typeof value === 'bigint' || typeof value === 'number'
  return plain && !/^-?(Infinity|NaN)/.test(text) ? text : JSON.stringify(text)
}

/** The unique index that rows are merged by; append and replace have none. */
export function setKey(db: DatabaseSync, table: string, key: readonly TableColumn[]): void {
  const wanted = key.map(({ name }) => name)
  const present = [...iterate(db, `PRAGMA index_info(${KEY_INDEX})`)].map((row) => String(row[2]))
  if (present.length > 0 && present.join('\0') === wanted.join('\0')) return
  db.exec(`DROP INDEX IF EXISTS ${KEY_INDEX}`)
  if (wanted.length === 0) return
  try {
    db.exec(`CREATE UNIQUE INDEX ${KEY_INDEX} ON ${quoteName(table)} (${wanted.map(quoteName).join(', ')})`)
  } catch (error) {
    if (/UNIQUE constraint/.test((error as Error).message)) throw doubledKey(wanted, table)
    throw error
  }
}
