/**
 * The mark of a pipeline in its target database: how far its load has come, changed only in the transaction that loads
 * the rows. Every change names the attempt it belongs to, so an older attempt that comes back finds no row and stops.
 *
 *   run_id, seq, attempt, token   whose attempt it is
 *   checkpoint                    the last one committed of that run; 0: none
 *   cursor                        where the source resumes after it
 *   base_cursor                   the cursor of what is visible: differs from `cursor` while rows are still staged
 *   published                     the run is visible as a whole
 *   stage                         the table that holds rows which are not visible yet
 */
import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import { errno, errnoOf } from '../shared/errors.ts'
import { quoteTable, quoteText } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, type RowOf, readFlag, readInteger, readJson, readText } from '../shared/values.ts'
import { endPresence } from './locks.ts'
import { tableExists } from './table.ts'

const markRow = {
  run_id: readText,
  seq: readInteger,
  attempt: readInteger,
  token: readText,
  installation: readText,
  checkpoint: readInteger,
  cursor: orNull(readJson),
  base_cursor: orNull(readJson),
  published: readFlag,
  stage: orNull(readText),
}

export type MarkRow = RowOf<typeof markRow>

const list = Object.keys(markRow)
  .map((name) => `\`${name}\``)
  .join(', ')

/** Whose mark it is. */
export interface MarkOwner {
  database: string
  pipeline_id: string
  run_id: string
  seq: number
  attempt: number
  token: string
  installation: string
}

export function marksOf(database: string): string {
  return quoteTable({ database, table: '_sluice_marks' })
}

export async function ensureMarks(session: Session, database: string): Promise<void> {
  await session.run(
    `CREATE TABLE IF NOT EXISTS ${marksOf(database)} (
       pipeline_id varchar(64) NOT NULL PRIMARY KEY, run_id varchar(64) NOT NULL, seq bigint NOT NULL, attempt int NOT NULL,
       token varchar(64) NOT NULL, installation varchar(64) NOT NULL, checkpoint bigint NOT NULL, \`cursor\` longtext,
       base_cursor longtext, published tinyint(1) NOT NULL, stage varchar(64), updated_at datetime(6) NOT NULL
     ) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
     COMMENT 'How far Sluice has loaded each pipeline. Written together with the rows; keep it with them.'`,
  )
}

export const isOwn = (row: MarkRow, { run_id, attempt, token }: MarkOwner): boolean =>
  row.run_id === run_id && row.attempt === attempt && row.token === token

/** Another run with the same number is no older one: the sequence went back, and the mark may hold more than we know. */
const isNewer = (row: MarkRow, owner: MarkOwner): boolean =>
  row.run_id === owner.run_id ? row.attempt > owner.attempt : row.seq >= owner.seq

export function fencedError(mark: MarkRow | null, owner: MarkOwner): ConnectorError {
  return new ConnectorError('destination', `This attempt was fenced: ${whyFenced(mark, owner)}`)
}

function whyFenced(mark: MarkRow | null, owner: MarkOwner): string {
  if (mark === null) return `its mark in ${owner.database} is gone; was the table of marks deleted or restored?`
  if (mark.run_id === owner.run_id || mark.seq > owner.seq) {
    const who =
      mark.run_id !== owner.run_id
        ? 'a newer run of the pipeline has'
        : mark.attempt === owner.attempt
          ? 'another worker with the same attempt has'
          : `attempt ${mark.attempt} of this run has`
    return `${who} taken over, and nothing more of this one is loaded`
  }
  const by = mark.installation === owner.installation ? 'this installation' : `installation ${mark.installation}`
  return `the mark of this pipeline in ${owner.database} belongs to run ${mark.run_id.slice(0, 36)} (number ${mark.seq}) of ${by}, and this run is number ${owner.seq}. If the database of the platform was restored from a backup, an operator has to run \`sluice restored\` once; otherwise a newer run has taken over`
}

async function readMark(session: Session, { database, pipeline_id }: MarkOwner, lock: string): Promise<MarkRow | null> {
  const [row] = await session.query(
    `SELECT ${list} FROM ${marksOf(database)} WHERE pipeline_id = ${quoteText(pipeline_id)} ${lock}`,
    markRow,
  )
  return row ?? null
}

/** The row, locked until the transaction ends; this also waits for a COMMIT whose answer was lost. */
export function lockMark(session: Session, owner: MarkOwner): Promise<MarkRow | null> {
  return readMark(session, owner, 'FOR UPDATE')
}

function toJson(value: Json): string {
  return value === null || value === undefined ? 'NULL' : quoteText(JSON.stringify(value))
}

/** Takes the mark for a newer attempt. Returns the row as it was, except that checkpoints whose stage is gone are reset. */
async function takeMark(session: Session, owner: MarkOwner): Promise<MarkRow | null> {
  const table = marksOf(owner.database)
  await session.run(
    `INSERT IGNORE INTO ${table} (pipeline_id, run_id, seq, attempt, token, installation, checkpoint, published, updated_at)
     VALUES (${quoteText(owner.pipeline_id)}, '', -1, 0, '', '', 0, 0, UTC_TIMESTAMP(6))`,
  )
  const row = await lockMark(session, owner)
  if (row === null || isNewer(row, owner)) throw fencedError(row, owner)
  const sameRun = row.run_id === owner.run_id
  const lost =
    row.stage !== null &&
    !row.published &&
    !(await tableExists(session, { database: owner.database, table: row.stage }))
  const stands = sameRun && !lost ? row : { ...row, checkpoint: 0, cursor: row.base_cursor, stage: null }
  await session.run(
    `UPDATE ${table} SET run_id = ${quoteText(owner.run_id)}, seq = ${owner.seq}, attempt = ${owner.attempt}, token = ${quoteText(owner.token)},
       installation = ${quoteText(owner.installation)}, checkpoint = ${stands.checkpoint}, \`cursor\` = ${toJson(stands.cursor)},
       published = ${sameRun && row.published ? 1 : 0}, stage = ${stands.stage === null ? 'NULL' : quoteText(stands.stage)}, updated_at = UTC_TIMESTAMP(6)
     WHERE pipeline_id = ${quoteText(owner.pipeline_id)}`,
  )
  if (row.seq < 0) return null
  // For an earlier run, the visible position is its base cursor.
  return sameRun ? stands : { ...row, cursor: row.base_cursor, stage: null }
}

const TRIES = 90

/** Takes the mark, and ends the session of an older attempt that holds it: a stopped process would hold it for ever. */
export async function fence(session: Session, owner: MarkOwner): Promise<MarkRow | null> {
  await session.run('SET SESSION innodb_lock_wait_timeout = 1')
  for (let tries = 1; ; tries += 1) {
    await session.run('START TRANSACTION')
    try {
      const row = await takeMark(session, owner)
      await session.run('COMMIT')
      await session.run('SET SESSION innodb_lock_wait_timeout = DEFAULT')
      return row
    } catch (error) {
      if (errnoOf(error) !== errno.lockWaitTimeout || tries === TRIES) throw error
      await session.run('ROLLBACK')
      const holder = await readMark(session, owner, '')
      if (holder !== null && !isNewer(holder, owner)) await endHolder(session, owner, holder)
    }
  }
}

/** What an attempt's session is known by (locks.ts). */
export function presenceOf(
  pipeline: string,
  { run_id, attempt, token }: Pick<MarkOwner, 'run_id' | 'attempt' | 'token'>,
): string {
  return `attempt ${pipeline} ${run_id} ${attempt} ${token}`
}

/** The same of the session that loads its rows. */
export function rowPresenceOf(pipeline: string, attempt: Pick<MarkOwner, 'run_id' | 'attempt' | 'token'>): string {
  return `rows of ${presenceOf(pipeline, attempt)}`
}

/** Ends what is left of the attempt that had the mark: a load that it does not finish would block its table for ever. */
export async function endHolder(session: Session, { pipeline_id }: MarkOwner, holder: MarkRow): Promise<void> {
  await endPresence(session, presenceOf(pipeline_id, holder))
  await endPresence(session, rowPresenceOf(pipeline_id, holder))
}

/** First statement of a checkpoint's transaction. */
export async function advanceMark(session: Session, owner: MarkOwner, checkpoint: number): Promise<void> {
  await changeMark(session, owner, checkpoint - 1, `checkpoint = ${checkpoint}`)
}

/** At the end of a checkpoint. In loads without a stage the rows are visible, and so is the cursor. */
export async function setCursor(
  session: Session,
  owner: MarkOwner,
  { checkpoint, cursor, visible }: { checkpoint: number; cursor: Json; visible: boolean },
): Promise<void> {
  const value = toJson(cursor)
  await changeMark(session, owner, checkpoint, `\`cursor\` = ${value}${visible ? `, base_cursor = ${value}` : ''}`)
}

export async function publishMark(
  session: Session,
  owner: MarkOwner,
  { checkpoint, cursor }: { checkpoint: number; cursor: Json },
): Promise<void> {
  const value = toJson(cursor)
  await changeMark(
    session,
    owner,
    checkpoint,
    `\`cursor\` = ${value}, base_cursor = ${value}, published = 1, stage = NULL`,
  )
}

/** Names the stage. With `reset`, forgets the checkpoints whose rows were in another. */
export async function setStage(
  session: Session,
  owner: MarkOwner,
  { checkpoint, stage, reset }: { checkpoint: number; stage: string; reset: boolean },
): Promise<void> {
  const more = reset ? ', checkpoint = 0, `cursor` = base_cursor' : ''
  await changeMark(session, owner, checkpoint, `stage = ${quoteText(stage)}${more}`)
}

/** Fails if this attempt was fenced; changes nothing else. */
export async function confirmMark(session: Session, owner: MarkOwner, checkpoint: number): Promise<void> {
  await changeMark(session, owner, checkpoint, 'published = published')
}

/** A run that turns out to have been published. */
export async function recordPublished(
  session: Session,
  owner: MarkOwner,
  { cursor, checkpoint, sameRun }: { cursor: Json; checkpoint: number; sameRun: boolean },
): Promise<void> {
  const value = toJson(cursor)
  const set = sameRun
    ? `\`cursor\` = ${value}, base_cursor = ${value}, checkpoint = ${checkpoint}, published = 1, stage = NULL`
    : `\`cursor\` = ${value}, base_cursor = ${value}`
  const { affectedRows } = await session.run(
    `UPDATE ${marksOf(owner.database)} SET ${set}, updated_at = UTC_TIMESTAMP(6) WHERE ${ownRow(owner)}`,
  )
  if (affectedRows !== 1) throw fencedError(await readMark(session, owner, ''), owner)
}

function ownRow({ pipeline_id, run_id, attempt, token }: MarkOwner): string {
  return `pipeline_id = ${quoteText(pipeline_id)} AND run_id = ${quoteText(run_id)} AND attempt = ${attempt} AND token = ${quoteText(token)}`
}

async function changeMark(session: Session, owner: MarkOwner, checkpoint: number, set: string): Promise<void> {
  // The session counts the rows that were found, not those that changed.
  const { affectedRows } = await session.run(
    `UPDATE ${marksOf(owner.database)} SET ${set}, updated_at = UTC_TIMESTAMP(6)
     WHERE ${ownRow(owner)} AND checkpoint = ${checkpoint} AND published = 0`,
  )
  if (affectedRows !== 1) throw fencedError(await readMark(session, owner, ''), owner)
}
