/**
 * Loads rows into one table within a transaction: creates or alters the table as the rows require, and keeps one COPY
 * open as long as the columns stay the same.
 */
import { ConnectorError } from '../../contract.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { type CopyIn, copyIn } from './copy-in.ts'
import { withLock } from './locks.ts'
import { requireTypes } from './native-columns.ts'
import type { QueueItem } from './page-queue.ts'
import { addColumnSql, type LoadTable, type TableColumn, widenColumnSql } from './table.ts'
import { isWidening } from './widening.ts'

export interface Loader {
  write(item: QueueItem): Promise<void>
  /** Ends the COPY; the rows are in the table. Returns how many were written in all. */
  finish(): Promise<number>
}

export function createLoader(session: Session, signal: AbortSignal, table: LoadTable): Loader {
  let copy: CopyIn | null = null
  let statement = ''
  /** How many rows in binary form were sent to the open COPY; null if it takes text. */
  let sent: number | null = null
  let written = 0

  async function finish(): Promise<number> {
    const ending = copy
    copy = null
    const taken = (await ending?.finish()) ?? 0
    // A trigger may drop rows, but nothing adds one.
    if (ending !== null && sent !== null && taken > sent) throw wrongCount(taken, sent)
    written += taken
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
    async write({ rows, columns, release, binary }) {
      if (columns.length === 0) return writeEmptyRows(rows.length)
      const wanted = copySql(table, columns, binary !== undefined)
      if (copy !== null && (wanted !== statement || needsChange(table.columns, columns))) await finish()
      if (copy === null) {
        await reconcile(session, signal, table, columns)
        if (binary !== undefined) await requireTypes(session, table, columns)
        copy = copyIn(session, wanted, binary !== undefined)
        statement = wanted
        sent = binary === undefined ? null : 0
      }
      if (binary !== undefined) sent = (sent ?? 0) + binary
      await copy.write(rows, release)
    },
    finish,
  }
}

function copySql(table: LoadTable, columns: readonly TableColumn[], binary: boolean): string {
  const list = columns.map(({ name }) => quoteName(name)).join(', ')
  return `COPY ${table.sql} (${list}) FROM STDIN${binary ? ' (FORMAT binary)' : ''}`
}

/** The source counts messages of its server. One that puts anything but one row into each is no PostgreSQL. */
function wrongCount(taken: number, sent: number): ConnectorError {
  return new ConnectorError('source', `The source announced ${sent} rows in binary form, and its bytes held ${taken}`)
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
