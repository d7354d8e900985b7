/**
 * The tables of an attempt beside its target, named after pipeline, run and attempt:
 *
 *   _sluice_s_…  the stage: rows that are not visible yet
 *   _sluice_m_…  the marker of a replace that has not happened
 *   _sluice_p_…  the same marker, once it has: the statement that swaps the tables renames it too
 *   _sluice_o_…  the old table, until it is dropped
 *
 * DDL ends a transaction in MySQL, so a swap and the mark cannot be one. The marker's name tells instead whether the swap
 * happened. An attempt makes its marker before it confirms the mark for the last time, and swaps after that; its
 * successor first takes the mark, then drops the marker. Whichever comes first, the swap or the drop, decides, because one
 * RENAME TABLE does all of its renames or none: without its marker a late attempt cannot swap any more.
 */
import type { Json } from '../../../json/json.ts'
import { sha256 } from '../../../sha256.ts'
import { quoteTable, quoteText, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readInteger, readJson, readText } from '../shared/values.ts'
import { type MarkOwner, marksOf, recordPublished } from './marks.ts'
import { listTables } from './table.ts'

export type TablePart = 's' | 'm' | 'p' | 'o'

/** Orders the records of a staged upsert. */
export const ordinalColumn = '_sluice_n'
const ABANDONED_DAYS = 7

function prefixOf(part: TablePart, pipeline: string): string {
  return `_sluice_${part}_${sha256(pipeline).toString('hex').slice(0, 16)}_`
}

export function ownTable(owner: MarkOwner, part: TablePart): TableName {
  const { database, pipeline_id, seq, attempt, token } = owner
  return { database, table: `${prefixOf(part, pipeline_id)}${seq}_${attempt}_${token.slice(0, 8)}` }
}

export async function createMarker(session: Session, owner: MarkOwner): Promise<void> {
  await session.run(
    `CREATE TABLE IF NOT EXISTS ${quoteTable(ownTable(owner, 'm'))} (run_id varchar(64) NOT NULL, checkpoint bigint NOT NULL, \`cursor\` longtext) ENGINE=InnoDB CHARACTER SET utf8mb4`,
  )
}

/** What the mark is to say once the swap has happened. */
export async function fillMarker(session: Session, owner: MarkOwner, checkpoint: number, cursor: Json): Promise<void> {
  const value = cursor === null || cursor === undefined ? 'NULL' : quoteText(JSON.stringify(cursor))
  await session.run(
    `INSERT INTO ${quoteTable(ownTable(owner, 'm'))} VALUES (${quoteText(owner.run_id)}, ${checkpoint}, ${value})`,
  )
}

export async function dropTables(session: Session, tables: readonly TableName[]): Promise<void> {
  for (const table of tables) await session.run(`DROP TABLE IF EXISTS ${quoteTable(table)}`)
}

/** After the mark was taken: settles what earlier attempts left, but for the stage that the mark names. Returns the cursor and checkpoint of a swap that happened. */
export async function settleEarlier(
  session: Session,
  owner: MarkOwner,
  keptStage: string | null,
): Promise<{ cursor: Json; checkpoint: number; sameRun: boolean } | null> {
  const { database, pipeline_id } = owner
  const named = async (part: TablePart): Promise<TableName[]> =>
    (await listTables(session, database, prefixOf(part, pipeline_id))).map((table) => ({ database, table }))
  // First the markers: from here on no earlier attempt can swap.
  await dropTables(session, await named('m'))
  await dropTables(
    session,
    (await named('s')).filter(({ table }) => table !== keptStage),
  )
  const happened = await named('p')
  let found: { cursor: Json; checkpoint: number; sameRun: boolean } | null = null
  for (const table of happened) {
    const [row] = await session.query(`SELECT run_id, checkpoint, \`cursor\` FROM ${quoteTable(table)}`, {
      run_id: readText,
      checkpoint: readInteger,
      cursor: orNull(readJson),
    })
    if (row === undefined) continue
    found = { cursor: row.cursor, checkpoint: row.checkpoint, sameRun: row.run_id === owner.run_id }
    await recordPublished(session, owner, found)
  }
  await dropTables(session, happened)
  await dropTables(session, await named('o'))
  return found
}

/**
 * Drops stages, and markers of swaps that did not happen, of other pipelines: those that no mark names, and those of
 * pipelines that have been inactive for days. A stage and its marker end in the same words.
 */
export async function sweepStages(session: Session, { database }: MarkOwner): Promise<void> {
  const recent = `updated_at > UTC_TIMESTAMP(6) - INTERVAL ${ABANDONED_DAYS} DAY`
  const listed = [
    ...(await listTables(session, database, '_sluice_s_')),
    ...(await listTables(session, database, '_sluice_m_')),
  ]
  for (const table of listed) {
    // Asked for each, because a mark may have started to use it since: a stage is named by its mark before it is made.
    const stage = table.replace(/^_sluice_m_/, '_sluice_s_')
    const [row] = await session.query(
      `SELECT count(*) FROM ${marksOf(database)} WHERE stage = ${quoteText(stage)} AND ${recent}`,
      { users: readInteger },
    )
    if (row?.users === 0) await dropTables(session, [{ database, table }]).catch(() => undefined)
  }
}
