/**
 * Staging tables: rows of a run that are not visible yet, in a table next to the target named after pipeline, run and
 * attempt. A mark names the one it uses.
 */
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { type MarkOwner, type MarkRow, setStage, tableExists } from './marks.ts'
import { stageName } from './own-tables.ts'
import { findSwapObstacles } from './swap.ts'
import { ordinalColumn, readColumns, type TableColumn } from './table.ts'

/**
 * Prepares the stage of a new attempt, in the transaction that holds the mark. If the source resumes, the rows staged
 * so far are kept under the new name, which no older attempt knows; otherwise they are dropped. Returns the checkpoint
 * that counts.
 */
export async function prepareStage(
  session: Session,
  owner: MarkOwner,
  mark: MarkRow,
  resumable: boolean,
): Promise<number> {
  const name = stageName(owner)
  const found = mark.stage !== null && (await tableExists(session, owner.schema, mark.stage))
  const goesOn = resumable && mark.checkpoint > 0 && found
  if (found && !goesOn) await session.script(`DROP TABLE ${quoteTable({ schema: owner.schema, table: mark.stage! })}`)
  if (goesOn && mark.stage !== name) {
    await session.script(
      `ALTER TABLE ${quoteTable({ schema: owner.schema, table: mark.stage! })} RENAME TO ${quoteName(name)}`,
    )
  }
  await setStage(session, owner, { checkpoint: mark.checkpoint, stage: name, reset: !goesOn })
  return goesOn ? mark.checkpoint : 0
}

/** Drops what an earlier run staged; this one writes to the table directly. */
export async function dropStage(session: Session, owner: MarkOwner, mark: MarkRow): Promise<void> {
  if (mark.stage === null) return
  await session.script(`DROP TABLE IF EXISTS ${quoteTable({ schema: owner.schema, table: mark.stage })}`)
  await setStage(session, owner, { checkpoint: mark.checkpoint, stage: null, reset: false })
}

/** Creates the stage of a replace: like its target if it may take its place, else with the loaded columns only. */
export async function createStage(
  session: Session,
  stage: TableName,
  options: { like: TableName | null; columns: readonly TableColumn[]; ordered: boolean },
): Promise<void> {
  if (options.like && (await findSwapObstacles(session, options.like)).length === 0) {
    const compression = session.version >= 140000 ? ' INCLUDING COMPRESSION' : ''
    await session.script(
      `CREATE TABLE ${quoteTable(stage)} (LIKE ${quoteTable(options.like)} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS INCLUDING STORAGE${compression})`,
    )
    const have = new Map((await readColumns(session, stage))!.map(({ name, type }) => [name, type]))
    for (const { name, type } of options.columns) {
      if (!have.has(name))
        await session.script(`ALTER TABLE ${quoteTable(stage)} ADD COLUMN ${quoteName(name)} ${type}`)
    }
    return
  }
  const parts = options.columns.map(({ name, type }) => `${quoteName(name)} ${type}`)
  if (options.ordered) parts.push(`${quoteName(ordinalColumn)} int8 GENERATED ALWAYS AS IDENTITY (CACHE 1000)`)
  await session.script(`CREATE TABLE ${quoteTable(stage)} (${parts.join(', ')})`)
}
