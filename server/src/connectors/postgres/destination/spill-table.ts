/**
 * The rows of one checkpoint that is large or takes long, in a table of our own beside the target. They get there in short
 * transactions, so that a source which rarely sets its state keeps none open, and nothing locked, while it reads on; the
 * transaction that moves the mark then moves them to where they belong and drops the table.
 *
 * The table is named after pipeline, run and attempt, so it only ever holds rows of this attempt, and no more than one
 * checkpoint of them. It is unlogged: a server that crashes empties it, a fail-over loses it, somebody may drop it. So its
 * rows are counted before they are moved, and where one is missing the attempt fails and the next one reads them again.
 */
import { ConnectorError, type LoadContext } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { readInteger } from '../shared/values.ts'
import { openLoader } from './careful-loader.ts'
import type { Connection } from './connection.ts'
import { type ColumnTypes, toTypes } from './load-tables.ts'
import type { MarkOwner } from './marks.ts'
import { spillName } from './own-tables.ts'
import type { QueueItem } from './page-queue.ts'
import { type LoadTable, ordinalColumn } from './table.ts'

export interface Spill {
  name: TableName
  columns: ColumnTypes | null
  /** How many were committed. */
  rows: number
}

export function createSpill(owner: MarkOwner): Spill {
  return { name: { schema: owner.schema, table: spillName(owner) }, columns: null, rows: 0 }
}

/** Adds rows in a transaction of their own. */
export async function addRows(
  spill: Spill,
  items: readonly QueueItem[],
  connection: Connection,
  context: Pick<LoadContext, 'fault' | 'signal' | 'refused'>,
): Promise<void> {
  const { fault } = context
  await fault('postgres.spill.before')
  await connection.begin()
  const { session } = connection
  // An attempt that was fenced must not drop and make tables when it comes back.
  if (spill.columns === null) await connection.lockOwnMark()
  const table = spillTable(session, spill)
  const loader = openLoader(session, context, table)
  try {
    for (const item of items) await loader.write(item)
    const rows = await loader.finish()
    await fault('postgres.spill.copied')
    await session.commit()
    spill.rows += rows
  } catch (error) {
    throw codeOf(error) === sqlState.undefinedTable ? lostRows(spill, 0) : error
  }
  spill.columns = table.columns
  await fault('postgres.spill.committed')
}

function spillTable(session: Session, { name, columns }: Spill): LoadTable {
  return {
    name,
    sql: quoteTable(name),
    columns,
    async create(wanted) {
      const parts = wanted.map((column) => `${quoteName(column.name)} ${column.type}`)
      parts.push(`${quoteName(ordinalColumn)} int8 GENERATED ALWAYS AS IDENTITY (CACHE 1000)`)
      const table = quoteTable(name)
      await session.script(`DROP TABLE IF EXISTS ${table}; CREATE UNLOGGED TABLE ${table} (${parts.join(', ')})`)
      return toTypes(wanted)!
    },
  }
}

/** Before the rows are moved, in the transaction that moves them. */
export async function requireWhole(session: Session, spill: Spill): Promise<void> {
  const count = `SELECT count(*) AS rows FROM ${quoteTable(spill.name)}`
  const [found] = await session.query(count, [], { rows: readInteger }).catch((error) => {
    throw codeOf(error) === sqlState.undefinedTable ? lostRows(spill, 0) : error
  })
  if (found?.rows !== spill.rows) throw lostRows(spill, found?.rows ?? 0)
}

function lostRows({ name, rows }: Spill, found: number): ConnectorError {
  const message = `The table ${name.table} held ${rows} rows of this checkpoint and now has ${found}: the server crashed or failed over, or somebody changed it. The next attempt reads them again`
  return new ConnectorError('destination', message, { transient: true })
}
