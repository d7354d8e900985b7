/**
 * Loads rows into one table within a transaction: creates or alters the table as the rows require, and keeps one COPY
 * open as long as the columns stay the same.
 */
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { type CopyIn, copyIn } from './copy-in.ts'
import { withLock } from './locks.ts'
import type { QueueItem } from './page-queue.ts'
import { addColumnSql, type TableColumn, widenColumnSql } from './table.ts'
import { isWidening } from './widening.ts'

export interface LoadTable {
  name: TableName
  /** As SQL writes it; a temporary table has no schema. */
  sql: string
  /** Null while it does not exist. */
  columns: Map<string, string> | null
  create(columns: readonly TableColumn[]): Promise<Map<string, string>>
}

export interface Loader {
  write(item: QueueItem): Promise<void>
  /** Ends the COPY; the rows are in the table. Returns how many were written in all. */
  finish(): Promise<number>
}

export function createLoader(session: Session, signal: AbortSignal, table: LoadTable): Loader {
  let copy: CopyIn | null = null
  let columnsOfCopy = ''
  let written = 0

  async function finish(): Promise<number> {
    const ending = copy
    copy = null
    written += (await ending?.finish()) ?? 0
    return written
  }

  /** COPY does not accept an empty column list. Each row is just its newline. */
  async function writeEmptyRows(count: number): Promise<void> {
    await finish()
    await reconcile(session, signal, table, [])
    await session.script(`INSERT INTO ${table.sql} SELECT FROM generate_series(1, ${count})`)
    written += count
  }

  return {
    async write({ rows, columns, release }) {
      if (columns.length === 0) return writeEmptyRows(rows.length)
      const list = columns.map(({ name }) => quoteName(name)).join(', ')
      if (copy !== null && (list !== columnsOfCopy || needsChange(table.columns, columns))) await finish()
      if (copy === null) {
        await reconcile(session, signal, table, columns)
        copy = copyIn(session, `COPY ${table.sql} (${list}) FROM STDIN`)
        columnsOfCopy = list
      }
      await copy.write(rows, release)
    },
    finish,
  }
}

export function needsChange(have: Map<string, string> | null, columns: readonly TableColumn[]): boolean {
  if (have === null) return true
  return columns.some(({ name, type, was }) => {
    const is = have.get(name)
    return is === undefined || (is !== type && is === was) || isWidening(is, type)
  })
}

/** Makes the table hold the columns. A column that another session has widened further stays that way. */
export async function reconcile(
  session: Session,
  signal: AbortSignal,
  table: LoadTable,
  columns: readonly TableColumn[],
): Promise<void> {
  table.columns ??= await table.create(columns)
  const statements = changeColumnsSql(table.name, table.columns, columns)
  if (statements.length === 0) return
  const text = statements.join('; ').replaceAll(quoteTable(table.name), table.sql)
  await withLock(session, signal, table.name.table, () => session.script(text))
}

/** The statements that make a table of the columns `have` hold others too; `have` is changed with them. */
export function changeColumnsSql(
  name: TableName,
  have: Map<string, string>,
  columns: readonly TableColumn[],
): string[] {
  const statements: string[] = []
  for (const column of columns) {
    const type = have.get(column.name)
    if (type === undefined) statements.push(addColumnSql(name, column))
    else if ((type !== column.type && type === column.was) || isWidening(type, column.type))
      statements.push(widenColumnSql(name, column, type))
    else continue
    have.set(column.name, column.type)
  }
  return statements
}
