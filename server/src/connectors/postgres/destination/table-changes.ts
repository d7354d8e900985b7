/**
 * ALTER TABLE on a table that others use. It locks out even readers, so it runs in a short transaction of its own, before
 * the rows that need it: a lock that is not had at once is waited for only a moment, because whoever comes after us waits
 * behind us, and then tried again. A crash right after it leaves a column that no row uses yet, and the next attempt finds
 * it there. Only the attempt that has the mark changes the table.
 */
import { ConnectorError, type LoadContext } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import type { TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import type { Connection } from './connection.ts'
import { type ColumnTypes, toTypes } from './load-tables.ts'
import { changeColumnsSql } from './loader.ts'
import { retryWhileLocked, serializeWriters } from './locks.ts'
import type { MarkRow } from './marks.ts'
import { ensureUnique } from './merge.ts'
import { readColumns, type TableColumn } from './table.ts'

const WAIT_SECONDS = 1
const TRIES = 400

interface ChangeOptions {
  connection: Connection
  target: TableName
  context: Pick<LoadContext, 'signal' | 'fault'>
}

/** The work in a short transaction in which locks are waited for only a moment; tried again until it gets them. */
export async function changeTable<T>(
  { connection, target, context }: ChangeOptions,
  work: (session: Session, mark: MarkRow) => Promise<T>,
): Promise<T> {
  await context.fault('postgres.change.before')
  return retryWhileLocked({ table: target.table, tries: TRIES, signal: context.signal }, async () => {
    await connection.begin()
    const { session } = connection
    try {
      const mark = await connection.lockOwnMark()
      await serializeWriters(session, target.schema, target.table)
      await session.script(`SET LOCAL lock_timeout = '${WAIT_SECONDS}s'`)
      const result = await work(session, mark)
      await session.commit()
      await context.fault('postgres.change.after')
      return result
    } catch (error) {
      if (codeOf(error) === sqlState.lockNotAvailable) await session.rollback()
      throw error
    }
  })
}

/** Adds and widens columns, and makes the key unique. Returns the columns as they are now; null: there is no table. */
export function changeColumns(
  options: ChangeOptions,
  columns: readonly TableColumn[],
  key: readonly string[],
): Promise<ColumnTypes | null> {
  return changeTable(options, async (session) => {
    const have = toTypes(await readColumns(session, options.target))
    if (have === null) return null
    const statements = changeColumnsSql(options.target, have, columns)
    if (statements.length > 0) await session.script(statements.join('; '))
    if (key.length > 0) await ensureUnique(session, options.target, key)
    return have
  })
}

/** The columns of the table in the transaction that has its turn. Another pipeline may have changed it since we looked. */
export async function noticeOthers(
  session: Session,
  target: TableName,
  written: readonly TableColumn[],
): Promise<ColumnTypes | null> {
  const now = toTypes(await readColumns(session, target))
  for (const { name, type, was } of written) {
    const is = now?.get(name)
    if (is === type || is === was || (is !== 'jsonb' && is !== 'json')) continue
    const message = `Another session changed column ${name} of ${target.table} to ${is}; the run begins again`
    throw new ConnectorError('destination', message, { transient: true })
  }
  return now
}
