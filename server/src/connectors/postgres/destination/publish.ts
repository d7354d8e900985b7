/**
 * Makes staged rows visible, in one transaction with the mark. append and upsert move them into the table; replace
 * swaps the stage in, or exchanges the rows if a swap is not possible (swap.ts). TRUNCATE is never used: a reader with
 * an older snapshot would find the table empty.
 */
import { ConnectorError, type RefusedRecords, type RunLog, type Sync } from '../../contract.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { readBoolean, readText } from '../shared/values.ts'
import { withLock } from './locks.ts'
import type { MarkRow } from './marks.ts'
import { checkKey, ensureUnique, findChangeable, mergeRows } from './merge.ts'
import { moveRows, tryRows } from './refused-rows.ts'
import {
  copyIndexes,
  copyProperties,
  findSwapObstacles,
  type Renames,
  swapTables,
  waitForOlderSnapshots,
} from './swap.ts'
import {
  addColumnSql,
  createTableSql,
  insertSql,
  ordinalColumn,
  readColumns,
  restOf,
  type TableColumn,
  widenColumnSql,
} from './table.ts'
import { isWidening } from './widening.ts'

interface PublishInput {
  session: Session
  signal: AbortSignal
  log: RunLog
  sync: Sync
  target: TableName
  stage: TableName
  /** Columns for a target that does not exist yet, if no rows came. */
  columns: readonly TableColumn[]
  refused: RefusedRecords | undefined
  fault(point: string): Promise<void> | void
}

/**
 * What the table needs before staged rows are moved into it, in a short transaction before the one that moves them: that
 * takes as long as there are rows, and nobody could read the table meanwhile. Returns what changed.
 */
export async function prepareTarget(input: PublishInput, mark: MarkRow): Promise<string[]> {
  const { session, sync, target, stage } = input
  const [existing, staged] = [await readColumns(session, target), await readColumns(session, stage)]
  if (existing === null || staged === null || !(await hasRows(session, stage))) return []
  const columns = staged.filter(({ name }) => name !== ordinalColumn)
  if (sync.write === 'replace' && (await willSwap(input, mark, existing, columns))) return []
  if (sync.write === 'upsert') checkKey(columns, sync.primary_key)
  const { statements, changes } = planChanges(input, existing, columns)
  if (statements.length > 0) await session.script(statements.join('; '))
  if (sync.write === 'upsert') await ensureUnique(session, target, sync.primary_key)
  return changes
}

/** Whether the stage can take the place of the table as things are now. */
async function willSwap(
  input: PublishInput,
  mark: MarkRow,
  existing: readonly TableColumn[],
  staged: readonly TableColumn[],
): Promise<boolean> {
  const { session, signal, target } = input
  // All staged rows are at least as old as the transaction that changed the mark last.
  return (await maySwap(session, target, existing, staged)) && waitForOlderSnapshots(session, signal, mark.changed_by)
}

async function maySwap(
  session: Session,
  target: TableName,
  existing: readonly TableColumn[],
  staged: readonly TableColumn[],
): Promise<boolean> {
  const have = new Set(staged.map(({ name }) => name))
  return existing.every(({ name }) => have.has(name)) && (await findSwapObstacles(session, target)).length === 0
}

/** Inside the open transaction that has taken the mark, which is given as it was before. Returns what changed in the table. */
export async function publishStage(input: PublishInput, mark: MarkRow): Promise<string[]> {
  const { session, stage, sync, target } = input
  const staged = await readColumns(session, stage)
  const rows = staged !== null && (await hasRows(session, stage))
  const existing = await readColumns(session, target)
  if (!rows) {
    if (staged) await session.script(`DROP TABLE ${quoteTable(stage)}`)
    return publishNothing(input, existing)
  }
  const columns = staged.filter(({ name }) => name !== ordinalColumn)
  if (sync.write === 'replace') return replaceRows(input, mark, existing, columns)
  if (sync.write === 'upsert') checkKey(columns, sync.primary_key)
  const changes = await matchTarget(input, existing, columns)
  if (sync.write === 'upsert')
    await mergeRows(session, {
      target,
      from: quoteTable(stage),
      columns,
      key: sync.primary_key,
      log: input.log,
      refused: input.refused,
    })
  else await insertStaged(input, columns)
  await session.script(`DROP TABLE ${quoteTable(stage)}`)
  return changes
}

async function insertStaged(
  { session, target, stage, refused }: PublishInput,
  columns: readonly TableColumn[],
): Promise<void> {
  const from = quoteTable(stage)
  const names = columns.map(({ name }) => name)
  const statement = (condition: string | null) => insertSql(target, names, restOf(from, condition))
  await moveRows(session, { from, columns, statement }, refused)
}

async function hasRows(session: Session, table: TableName): Promise<boolean> {
  const [row] = await session.query(`SELECT EXISTS (SELECT FROM ${quoteTable(table)}) AS found`, [], {
    found: readBoolean,
  })
  return row?.found === true
}

async function publishNothing(
  { session, target, sync, columns, log }: PublishInput,
  existing: TableColumn[] | null,
): Promise<string[]> {
  if (existing === null) {
    if (columns.length === 0) return []
    if (sync.write === 'upsert') checkKey(columns, sync.primary_key)
    await session.script(createTableSql(target, columns, sync.write === 'upsert' ? sync.primary_key : []))
    return [`created table ${target.schema}.${target.table}`]
  }
  if (sync.write !== 'replace') return []
  if (sync.allow_empty) await session.script(`DELETE FROM ${quoteTable(target)}`)
  else if (await hasRows(session, target)) {
    log.warn(
      `The source returned no records, so the old rows of ${target.schema}.${target.table} stay. Set config.sync.allow_empty to empty it in such a case.`,
    )
  }
  return []
}

/** Makes the target able to hold what was staged: creates it, adds and widens columns. */
async function matchTarget(
  input: PublishInput,
  existing: TableColumn[] | null,
  staged: readonly TableColumn[],
): Promise<string[]> {
  const { session, signal, target, sync } = input
  if (existing === null) {
    await session.script(createTableSql(target, staged, sync.write === 'upsert' ? sync.primary_key : []))
    return [`created table ${target.schema}.${target.table}`]
  }
  const { statements, changes } = planChanges(input, existing, staged)
  if (statements.length > 0) await withLock(session, signal, target.table, () => session.script(statements.join('; ')))
  return changes
}

function planChanges(
  { target, columns }: PublishInput,
  existing: readonly TableColumn[],
  staged: readonly TableColumn[],
): { statements: string[]; changes: string[] } {
  const have = new Map(existing.map(({ name, type }) => [name, type]))
  const were = new Map(columns.map(({ name, was }) => [name, was]))
  const statements: string[] = []
  const changes: string[] = []
  for (const column of staged) {
    const type = have.get(column.name)
    if (type === undefined) {
      statements.push(addColumnSql(target, column))
      changes.push(`added column ${column.name} ${column.type}`)
    } else if ((type !== column.type && type === were.get(column.name)) || isWidening(type, column.type)) {
      statements.push(widenColumnSql(target, column, type))
      changes.push(`widened column ${column.name} from ${type} to ${column.type}`)
    }
  }
  return { statements, changes }
}

async function replaceRows(
  input: PublishInput,
  mark: MarkRow,
  existing: TableColumn[] | null,
  staged: readonly TableColumn[],
): Promise<string[]> {
  const { session, signal, target, stage, fault } = input
  if (existing === null) {
    await analyze(session, stage)
    await session.script(`ALTER TABLE ${quoteTable(stage)} RENAME TO ${quoteName(target.table)}`)
    return [`created table ${target.schema}.${target.table}`]
  }
  const renames = (await willSwap(input, mark, existing, staged)) ? await buildIndexes(input) : null
  if (renames !== null) {
    await analyze(session, stage)
    await copyProperties(session, target, stage)
    await fault('postgres.publish.built')
    const swapped = await withLock(session, signal, target.table, async () => {
      await session.script(`LOCK TABLE ${quoteTable(target)} IN ACCESS EXCLUSIVE MODE`)
      // A view may have been created while the indexes were built.
      if (!(await maySwap(session, target, existing, staged))) return false
      await swapTables(session, target, stage, renames)
      return true
    })
    if (swapped) return describeDifference(existing, staged)
  }
  await fault('postgres.publish.exchange')
  const changes = await matchTarget(input, existing, staged)
  await exchangeRows(input, staged)
  await session.script(`DROP TABLE ${quoteTable(stage)}`)
  return changes
}

/** Null if the rows do not fulfil the unique indexes and some have to be left out: then rows are exchanged. */
async function buildIndexes({ session, target, stage, refused }: PublishInput): Promise<Renames[] | null> {
  if (!refused) return copyIndexes(session, target, stage)
  const { done } = { done: null, ...(await tryRows(session, () => copyIndexes(session, target, stage))) }
  return done
}

/**
 * Before the table becomes visible: without statistics the first queries would be planned as if it were nearly empty.
 */
async function analyze(session: Session, stage: TableName): Promise<void> {
  await session.script(`ANALYZE ${quoteTable(stage)}`)
}

function describeDifference(before: readonly TableColumn[], after: readonly TableColumn[]): string[] {
  const have = new Map(before.map(({ name, type }) => [name, type]))
  return after.flatMap(({ name, type }) => {
    const old = have.get(name)
    if (old === undefined) return [`added column ${name} ${type}`]
    return old === type ? [] : [`widened column ${name} from ${old} to ${type}`]
  })
}

/** Replaces the old rows with the new ones atomically. */
async function exchangeRows(input: PublishInput, staged: readonly TableColumn[]): Promise<void> {
  const { session, signal, log, target, stage, refused } = input
  await withLock(session, signal, target.table, () =>
    session.script(`LOCK TABLE ${quoteTable(target)} IN SHARE ROW EXCLUSIVE MODE`),
  )
  const [references] = await session.query(
    `SELECT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass($1) AND conrelid <> confrelid) AS found`,
    [quoteTable(target)],
    { found: readBoolean },
  )
  const names = staged.map(({ name }) => name)
  if (!references?.found) {
    await session.script(`DELETE FROM ${quoteTable(target)}`)
    return insertStaged(input, staged)
  }
  // Deleting a referenced row would fail, or cascade to the other table. So rows are matched by key.
  const key = await readPrimaryKey(session, target)
  if (key.length === 0 || !key.every((name) => staged.some((column) => column.name === name))) {
    throw new ConnectorError(
      'config',
      `Other tables refer to ${target.schema}.${target.table}, so its rows are replaced by primary key; it needs one whose columns are all loaded`,
    )
  }
  const on = key.map((name) => `t.${quoteName(name)} = s.${quoteName(name)}`).join(' AND ')
  const others = (await findChangeable(session, target, names, log)).filter((name) => !key.includes(name))
  await session.script(
    `DELETE FROM ${quoteTable(target)} AS t WHERE NOT EXISTS (SELECT FROM ${quoteTable(stage)} AS s WHERE ${on})`,
  )
  if (others.length > 0) {
    const set = others.map((name) => `${quoteName(name)} = s.${quoteName(name)}`).join(', ')
    const update = (condition: string | null) =>
      `UPDATE ${quoteTable(target)} AS t SET ${set} FROM ${quoteTable(stage)} AS s WHERE ${on}${and(condition)}`
    await moveRows(session, { from: quoteTable(stage), columns: staged, statement: update }, refused)
  }
  const insert = (condition: string | null) => {
    const isNew = `NOT EXISTS (SELECT FROM ${quoteTable(target)} AS t WHERE ${on})`
    return insertSql(target, names, restOf(quoteTable(stage), `${isNew}${and(condition)}`))
  }
  await moveRows(session, { from: quoteTable(stage), columns: staged, statement: insert }, refused)
}

const and = (condition: string | null): string => (condition === null ? '' : ` AND ${condition}`)

async function readPrimaryKey(session: Session, table: TableName): Promise<string[]> {
  const rows = await session.query(
    `SELECT a.attname::text AS name FROM pg_index i, unnest(i.indkey::int2[]) AS k(attnum), pg_attribute a
     WHERE i.indrelid = to_regclass($1) AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.attnum`,
    [quoteTable(table)],
    { name: readText },
  )
  return rows.map((row) => row.name)
}
