/** The tables that rows are loaded into before they reach the target: a stage, or a temporary table per checkpoint. */
import type { WriteMode } from '../../contract.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { byName, columnSql, sameColumn, type TableColumn } from './columns.ts'
import { maySwap } from './publish.ts'
import { ordinalColumn } from './stage.ts'
import { readTable, type ShapeChanges, tableOptions } from './table.ts'

export interface Receiver {
  name: TableName
  columns: Map<string, TableColumn>
}

interface ReceiverInput {
  stage: TableName
  target: TableName
  columns: readonly TableColumn[]
  write: WriteMode
  /** A row that is refused has to be found. */
  quarantine: boolean
}

const BATCH = '_sluice_batch'

/** Records to be merged are numbered, because the last of several wins; all are, where one may have to be left out. */
function listColumns({ columns, write, quarantine }: ReceiverInput): string {
  const parts = columns.map((column) => columnSql(column))
  if (write === 'upsert' || quarantine)
    parts.push(`${quoteName(ordinalColumn)} bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY`)
  return parts.join(', ')
}

/** Gone with the session; creating and dropping it does not end a transaction. */
export async function createBatch(session: Session, input: ReceiverInput): Promise<Receiver> {
  const name = { database: input.stage.database, table: BATCH }
  await session.run(`CREATE TEMPORARY TABLE ${quoteTable(name)} (${listColumns(input)}) ${tableOptions(session)}`)
  return { name, columns: byName(input.columns) }
}

/** Like its target if it may take its place. */
export async function createStage(session: Session, input: ReceiverInput): Promise<Receiver> {
  const { stage, target, columns, write } = input
  const existing = write === 'replace' ? await readTable(session, target) : null
  if (existing !== null && (await maySwap(session, target))) {
    await session.run(`CREATE TABLE ${quoteTable(stage)} LIKE ${quoteTable(target)}`)
    return { name: stage, columns: byName(existing.columns) }
  }
  // A new table takes the name of its stage, so it must not have a column of ours; and it refuses nothing.
  const quarantine = input.quarantine && (write !== 'replace' || existing !== null)
  const list = listColumns({ ...input, quarantine })
  await session.run(`CREATE TABLE ${quoteTable(stage)} (${list}) ${tableOptions(session)}`)
  return { name: stage, columns: byName(columns) }
}

/** What the table lacks to hold the columns; null if nothing. */
export function findChanges({ columns: have }: Receiver, columns: readonly TableColumn[]): ShapeChanges | null {
  const added = columns.filter(({ name }) => !have.has(name))
  const widened = columns.flatMap((to) => {
    const from = have.get(to.name)
    return from === undefined || sameColumn(from, to) ? [] : [{ from, to }]
  })
  return added.length + widened.length === 0 ? null : { added, widened }
}
