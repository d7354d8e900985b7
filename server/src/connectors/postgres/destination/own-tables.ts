/**
 * The tables that we make beside the target, named after pipeline, run and attempt: stages (stage.ts) and spilled
 * checkpoints (spill-table.ts). A mark names the stage it uses, and the attempt that may have a spill. A table that no mark
 * names belongs to nobody and is swept by the next run of any pipeline.
 */
import { createHash } from 'node:crypto'
import { quoteTable, type TableName } from '../shared/names.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { readText } from '../shared/values.ts'
import { isOwn, lockMark, type MarkOwner, setStage } from './marks.ts'
import { marksOf } from './marks-table.ts'

const stagePrefix = '_sluice_s_'
const spillPrefix = '_sluice_b_'
const abandonedAfter = '7 days'

export const stageName = (owner: MarkOwner): string => `${stagePrefix}${nameAttempt(owner)}`
export const spillName = (owner: MarkOwner): string => `${spillPrefix}${nameAttempt(owner)}`

function nameAttempt({ pipeline_id, seq, attempt, token }: MarkOwner): string {
  const pipeline = createHash('sha256').update(pipeline_id).digest('hex').slice(0, 16)
  return `${pipeline}_${seq}_${attempt}_${token.slice(0, 8)}`
}

/** The same, of the attempt that has a mark. */
const spillNameSql = `'${spillPrefix}' || left(encode(sha256(convert_to(pipeline_id, 'UTF8')), 'hex'), 16) || '_' || seq || '_' || attempt || '_' || left(coalesce(token, ''), 8)`

/** Drops the tables that no mark names, and those of pipelines that have not been heard of for days. */
export async function sweepTables(session: Session, owner: MarkOwner): Promise<void> {
  const inUse = (name: string) => `SELECT FROM ${marksOf(owner.schema)}
    WHERE (stage = ${name} OR (NOT published AND ${spillNameSql} = ${name})) AND updated_at > now() - interval '${abandonedAfter}'`
  const rows = await inTransaction(session, () =>
    session.query(
      `SELECT c.relname::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = $1 AND c.relkind = 'r' AND (starts_with(c.relname::text, $2) OR starts_with(c.relname::text, $3))
         AND pg_has_role(c.relowner, 'USAGE') AND NOT EXISTS (${inUse('c.relname')})`,
      [owner.schema, stagePrefix, spillPrefix],
      { name: readText },
    ),
  )
  for (const { name } of rows) {
    await inTransaction(session, async () => {
      await session.script("SET LOCAL lock_timeout = '1s'")
      // Between the list and the drop a mark may have come to name it: look again.
      const [named] = await session.query(inUse('$1'), [name])
      if (!named) await session.script(`DROP TABLE IF EXISTS ${quoteTable({ schema: owner.schema, table: name })}`)
    }).catch(() => undefined)
  }
}

/** Of an attempt that failed; `forget` what the mark says of its stage. Only while it is this attempt's mark. */
export function dropOwnTables(
  session: Session,
  owner: MarkOwner,
  tables: readonly TableName[],
  { forget }: { forget: boolean },
): Promise<void> {
  return inTransaction(session, async () => {
    await session.script("SET LOCAL lock_timeout = '1s'")
    const mark = await lockMark(session, owner)
    if (mark === null || !isOwn(mark, owner) || mark.published) return
    for (const table of tables) await session.script(`DROP TABLE IF EXISTS ${quoteTable(table)}`)
    if (forget) await setStage(session, owner, { checkpoint: mark.checkpoint, stage: null, reset: true })
  })
}
