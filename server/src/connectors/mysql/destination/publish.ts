/**
 * Makes staged rows visible. append and upsert move them into the table, in one transaction with the mark. replace swaps
 * the stage in by one RENAME TABLE (stage.ts says how a crash is recognised), or exchanges the rows in one transaction
 * where foreign keys or triggers hang on the table. TRUNCATE is never used: it ends the transaction.
 */
import type { Json } from '../../../json/json.ts'
import { ConnectorError, type LoadContext } from '../../contract.ts'
import { quoteName, quoteTable, quoteText, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { readInteger, readText } from '../shared/values.ts'
import { isWidening, sameColumn, type TableColumn } from './columns.ts'
import type { LoadConnection } from './connection.ts'
import { takeTurn, withLock } from './locks.ts'
import { confirmMark, type MarkOwner, publishMark } from './marks.ts'
import { checkKey, mergeRows, prepareMerge } from './merge.ts'
import { moveRows } from './refused-rows.ts'
import { dropTables, fillMarker, ordinalColumn, ownTable } from './stage.ts'
import { alterTable, createTable, readTable } from './table.ts'

export interface PublishInput {
  connection: LoadConnection
  context: LoadContext
  owner: MarkOwner
  target: TableName
  checkpoint: number
  cursor: Json
  /** Columns for a target that does not exist yet, if no rows came. */
  columns: readonly TableColumn[]
}

/** Makes the target able to hold the columns: creates it, adds and widens. Returns what changed. */
export async function matchTarget(
  session: Session,
  context: LoadContext,
  target: TableName,
  columns: readonly TableColumn[],
): Promise<string[]> {
  const { sync, signal } = context
  const key = sync.write === 'upsert' ? sync.primary_key : []
  const existing = await readTable(session, target)
  if (existing === null) {
    await createTable(session, target, columns, key)
    return [`created table ${target.table}`]
  }
  const have = new Map(existing.columns.map((column) => [column.name.toLowerCase(), column]))
  const added: TableColumn[] = []
  const widened: { from: TableColumn; to: TableColumn }[] = []
  for (const column of columns) {
    const is = have.get(column.name.toLowerCase())
    if (is === undefined) added.push(column)
    else if (!sameColumn(is, column) && !key.includes(column.name) && isWidening(is, column))
      widened.push({ from: is, to: { ...column, name: is.name } })
  }
  await alterTable(session, signal, target, { added, widened })
  return [
    ...added.map(({ name, sql }) => `added column ${name} ${sql}`),
    ...widened.map(({ from, to }) => `widened column ${to.name} from ${from.sql} to ${to.sql}`),
  ]
}

export async function publishStage(input: PublishInput): Promise<string[]> {
  const { connection, context, owner, target } = input
  const { session } = connection
  const stage = ownTable(owner, 's')
  const staged = await readTable(session, stage)
  const rows = staged !== null && (await hasRows(session, stage))
  const columns = (staged?.columns ?? []).filter(({ name }) => name !== ordinalColumn)
  if (!rows) return publishNothing(input)
  if (context.sync.write === 'replace') {
    const numbered = columns.length < staged.columns.length
    return replaceRows(input, columns, numbered)
  }
  if (context.sync.write === 'upsert') checkKey(columns, context.sync.primary_key)
  const done = await takeTurn(session, target)
  const changes = await matchTarget(session, context, target, columns)
  if (context.sync.write === 'upsert') await prepareMerge(session, target, context.sync.primary_key)
  await inTransaction(input, async () => {
    if (context.sync.write === 'upsert')
      await mergeRows(session, {
        target,
        from: quoteTable(stage),
        columns,
        key: context.sync.primary_key,
        refused: context.refused,
      })
    else await insertStaged(input, stage, columns)
  })
  await done()
  await dropTables(connection.session, [stage])
  return changes
}

async function inTransaction(input: PublishInput, work: () => Promise<void>): Promise<void> {
  const { connection, context, owner, checkpoint, cursor } = input
  await connection.begin(false)
  await publishMark(connection.session, owner, { checkpoint, cursor })
  await context.fault('mysql.publish.marked')
  await work()
  await context.refused?.keep()
  await context.fault('mysql.publish.ready')
  await connection.commit((mark) => mark.published)
}

async function insertStaged(
  { connection, context, target }: PublishInput,
  stage: TableName,
  columns: readonly TableColumn[],
): Promise<void> {
  const list = columns.map(({ name }) => quoteName(name)).join(', ')
  const from = quoteTable(stage)
  const statement = (condition: string | null): string =>
    `INSERT INTO ${quoteTable(target)} (${list}) SELECT ${list} FROM ${from}${condition === null ? '' : ` WHERE ${condition}`}`
  await moveRows(connection.session, { from, columns, statement }, context.refused)
}

async function hasRows(session: Session, table: TableName): Promise<boolean> {
  const [row] = await session.query(`SELECT EXISTS (SELECT 1 FROM ${quoteTable(table)})`, { found: readInteger })
  return row?.found === 1
}

async function publishNothing(input: PublishInput): Promise<string[]> {
  const { connection, context, owner, target, columns } = input
  const { sync, log } = context
  const { session } = connection
  const existing = await readTable(session, target)
  const changes: string[] = []
  if (existing === null && columns.length > 0) {
    if (sync.write === 'upsert') checkKey(columns, sync.primary_key)
    changes.push(...(await matchTarget(session, context, target, columns)))
  }
  await inTransaction(input, async () => {
    if (existing === null || sync.write !== 'replace') return
    if (sync.allow_empty) await session.run(`DELETE FROM ${quoteTable(target)}`)
    else if (await hasRows(session, target))
      log.warn(
        `The source returned no records, so the old rows of ${target.table} stay. Set config.sync.allow_empty to empty it in such a case.`,
      )
  })
  await dropTables(connection.session, [ownTable(owner, 's'), ownTable(owner, 'm')])
  return changes
}

/** What would be lost with the old table: foreign keys of others follow it, its own and its triggers go with it. */
async function findObstacles(
  session: Session,
  { database, table }: TableName,
): Promise<{ swap: boolean; referenced: boolean }> {
  const [d, t] = [quoteText(database), quoteText(table)]
  const [row] = await session.query(
    `SELECT (SELECT count(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE UNIQUE_CONSTRAINT_SCHEMA = ${d} AND REFERENCED_TABLE_NAME = ${t}),
            (SELECT count(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ${d} AND TABLE_NAME = ${t}),
            (SELECT count(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = ${d} AND EVENT_OBJECT_TABLE = ${t})`,
    { referenced: readInteger, references: readInteger, triggers: readInteger },
  )
  const { referenced = 0, references = 0, triggers = 0 } = row ?? {}
  return { swap: referenced + references + triggers === 0, referenced: referenced > 0 }
}

/** Whether the stage of a replace may be made like the target, to take its place. */
export async function maySwap(session: Session, target: TableName): Promise<boolean> {
  return (await findObstacles(session, target)).swap
}

/** `numbered`: the stage has a column of ours, so it cannot take the place of the table. */
async function replaceRows(input: PublishInput, staged: readonly TableColumn[], numbered: boolean): Promise<string[]> {
  const { connection, context, owner, target, checkpoint, cursor } = input
  const { session } = connection
  const [stage, old, marker, done] = (['s', 'o', 'm', 'p'] as const).map((part) => quoteTable(ownTable(owner, part)))
  const existing = await readTable(session, target)
  const obstacles = existing === null ? { swap: true, referenced: false } : await findObstacles(session, target)
  if (!obstacles.swap || numbered) return exchangeRows(input, staged, obstacles.referenced)
  // The swap refuses nothing; what the stage refused was kept with its checkpoints.
  await context.refused?.keep()
  await fillMarker(session, owner, checkpoint, cursor)
  await confirmMark(session, owner, checkpoint)
  await context.fault('mysql.publish.marked')
  const renames =
    existing === null
      ? `${stage} TO ${quoteTable(target)}`
      : `${quoteTable(target)} TO ${old}, ${stage} TO ${quoteTable(target)}`
  await withLock(session, context.signal, target.table, () =>
    session.run(`RENAME TABLE ${renames}, ${marker} TO ${done}`),
  )
  await context.fault('mysql.publish.swapped')
  await connection.begin(false)
  await publishMark(session, owner, { checkpoint, cursor })
  await context.fault('mysql.publish.ready')
  await connection.commit((mark) => mark.published)
  await dropTables(connection.session, [ownTable(owner, 'p'), ownTable(owner, 'o')])
  return existing === null ? [`created table ${target.table}`] : describeDifference(existing.columns, staged)
}

function describeDifference(before: readonly TableColumn[], after: readonly TableColumn[]): string[] {
  const have = new Map(before.map(({ name, sql }) => [name, sql]))
  return after.flatMap(({ name, sql }) => {
    const old = have.get(name)
    if (old === undefined) return [`added column ${name} ${sql}`]
    return old === sql ? [] : [`widened column ${name} from ${old} to ${sql}`]
  })
}

/** Replaces the old rows with the new ones in one transaction. */
async function exchangeRows(
  input: PublishInput,
  staged: readonly TableColumn[],
  referenced: boolean,
): Promise<string[]> {
  const { connection, context, owner, target } = input
  const { session } = connection
  const stage = ownTable(owner, 's')
  const changes = await matchTarget(session, context, target, staged)
  const key = referenced ? await readPrimaryKey(session, target) : []
  if (referenced && (key.length === 0 || !key.every((name) => staged.some((column) => column.name === name))))
    throw new ConnectorError(
      'config',
      `Other tables refer to ${target.table}, so its rows are replaced by primary key; it needs one whose columns are all loaded`,
    )
  await context.fault('mysql.publish.exchange')
  await inTransaction(input, async () => {
    if (!referenced) {
      await session.run(`DELETE FROM ${quoteTable(target)}`)
      return insertStaged(input, stage, staged)
    }
    // Deleting a referenced row would fail, or cascade to the other table. So rows are matched by key.
    const on = key.map((name) => `t.${quoteName(name)} = s.${quoteName(name)}`).join(' AND ')
    await session.run(
      `DELETE t FROM ${quoteTable(target)} t LEFT JOIN ${quoteTable(stage)} s ON ${on} WHERE s.${quoteName(key[0]!)} IS NULL`,
    )
    const list = staged.map(({ name }) => quoteName(name))
    const set = list.map((name) => `${name} = VALUES(${name})`)
    const from = quoteTable(stage)
    const statement = (condition: string | null): string =>
      `INSERT INTO ${quoteTable(target)} (${list.join(', ')}) SELECT ${list.join(', ')} FROM ${from}${condition === null ? '' : ` WHERE ${condition}`} ON DUPLICATE KEY UPDATE ${set.join(', ')}`
    await moveRows(session, { from, columns: staged, statement }, context.refused)
  })
  await dropTables(connection.session, [stage, ownTable(owner, 'm')])
  return changes
}

async function readPrimaryKey(session: Session, { database, table }: TableName): Promise<string[]> {
  const rows = await session.query(
    `SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ${quoteText(database)} AND TABLE_NAME = ${quoteText(table)} AND INDEX_NAME = 'PRIMARY'`,
    { name: readText },
  )
  return rows.map(({ name }) => name)
}
