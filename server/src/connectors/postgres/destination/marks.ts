/**
 * The mark of a pipeline in its target schema: how far its load has come, changed only in the transaction that loads the
 * rows. Every change names the attempt it belongs to, so an older attempt that comes back finds no row and stops. Because
 * it must take the row first, it queues behind its successor instead of racing it.
 *
 *   run_id           which run it is of; `seq` is its place in the order of all runs, which a restore of the platform's
 *                    database may give out twice
 *   attempt, token   which attempt of it; after a failover two workers may believe that they hold the same attempt, and the
 *                    token tells them apart: the last one that fenced may commit
 *   installation     the platform that wrote it, for messages
 *   checkpoint       the last one committed of that run; 0: none
 *   cursor           where the source resumes after it
 *   base_cursor      the cursor of what is visible: differs from `cursor` while rows are still staged
 *   published        the run is visible as a whole
 *   stage            the table that holds rows which are not visible yet
 */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { quoteTable } from '../shared/names.ts'
import { inTransaction, type Session } from '../shared/session.ts'
import { orNull, type RowOf, readBoolean, readInteger, readJson, readText } from '../shared/values.ts'
import { marksOf, marksTable } from './marks-table.ts'

const markRow = {
  run_id: readText,
  seq: readInteger,
  attempt: readInteger,
  token: orNull(readText),
  installation: orNull(readText),
  checkpoint: readInteger,
  cursor: orNull(readJson),
  base_cursor: orNull(readJson),
  published: readBoolean,
  stage: orNull(readText),
  /** The transaction that last changed the row. */
  changed_by: readText,
}

export type MarkRow = RowOf<typeof markRow>

/** Whose mark it is. */
export interface MarkOwner {
  schema: string
  pipeline_id: string
  run_id: string
  seq: number
  attempt: number
  token: string
  installation: string
}

export function fencedError(mark: MarkRow | null, owner: MarkOwner): ConnectorError {
  return new ConnectorError('destination', `This attempt was fenced: ${explainFence(mark, owner)}`)
}

function explainFence(mark: MarkRow | null, owner: MarkOwner): string {
  const where = `${owner.schema}.${marksTable}`
  if (mark === null) return `the mark of this pipeline in ${where} is gone, so nothing more of this run is loaded`
  if (mark.run_id === owner.run_id) {
    const who = mark.attempt === owner.attempt ? 'another worker has' : `attempt ${mark.attempt} of this run has`
    return `${who} taken over, and nothing more of this one is loaded`
  }
  const by = mark.installation === owner.installation ? 'this installation' : `installation ${mark.installation}`
  return `the mark of this pipeline in ${where} belongs to run ${mark.run_id.slice(0, 36)} (number ${mark.seq}) of ${by}, and this run is number ${owner.seq}. If the database of the platform was restored from a backup, an operator has to run \`sluice restored\` once; otherwise a newer run has taken over`
}

/** The row, locked until the transaction ends; this also waits for a COMMIT whose answer was lost. */
export async function lockMark(session: Session, { schema, pipeline_id }: MarkOwner): Promise<MarkRow | null> {
  const [row] = await session.query(
    `SELECT run_id, seq, attempt, token, installation, checkpoint, cursor, base_cursor, published, stage, xmin::text AS changed_by FROM ${marksOf(schema)}
     WHERE pipeline_id = $1 FOR UPDATE`,
    [pipeline_id],
    markRow,
  )
  return row ?? null
}

/**
 * Takes the mark for a newer attempt. Returns the row as it was, except that checkpoints whose stage is gone are reset.
 * The same attempt may take it again, because the answer to its first try may have been lost. So may another worker that
 * holds the same attempt; the one before it is fenced from then on.
 */
async function takeMark(session: Session, owner: MarkOwner): Promise<MarkRow | null> {
  const table = marksOf(owner.schema)
  await session.query(
    `INSERT INTO ${table} (pipeline_id, run_id, seq, attempt, checkpoint, published) VALUES ($1, '', -1, 0, 0, false) ON CONFLICT DO NOTHING`,
    [owner.pipeline_id],
  )
  const row = await lockMark(session, owner)
  if (row === null || isNewer(row, owner)) throw fencedError(row, owner)
  const sameRun = row.run_id === owner.run_id
  const lost = sameRun && row.stage !== null && !row.published && !(await tableExists(session, owner.schema, row.stage))
  const stands = sameRun && !lost ? row : { ...row, checkpoint: 0, cursor: row.base_cursor }
  await session.query(
    `UPDATE ${table} SET run_id = $2, seq = $3, attempt = $4, checkpoint = $5, cursor = $6, published = $7, token = $8, installation = $9, updated_at = now() WHERE pipeline_id = $1`,
    [
      owner.pipeline_id,
      owner.run_id,
      owner.seq,
      owner.attempt,
      stands.checkpoint,
      toJson(stands.cursor),
      sameRun && row.published,
      owner.token,
      owner.installation,
    ],
  )
  if (row.seq < 0) return null
  // For an earlier run, the visible position is its base cursor.
  return sameRun ? stands : { ...row, cursor: row.base_cursor }
}

export const isOwn = (row: MarkRow, { run_id, attempt, token }: MarkOwner): boolean =>
  row.run_id === run_id && row.attempt === attempt && row.token === token

/** Another run with the same number is not an older one: the sequence went back, and the mark may hold more than we know. */
const isNewer = (row: MarkRow, owner: MarkOwner): boolean =>
  row.run_id === owner.run_id ? row.attempt > owner.attempt : row.seq >= owner.seq

export async function tableExists(session: Session, schema: string, table: string): Promise<boolean> {
  const [row] = await session.query('SELECT to_regclass($1) IS NOT NULL AS found', [quoteTable({ schema, table })], {
    found: readBoolean,
  })
  return row?.found === true
}

/** First statement of a checkpoint's transaction. */
export async function advanceMark(session: Session, owner: MarkOwner, checkpoint: number): Promise<void> {
  await changeMark(session, owner, checkpoint - 1, { set: 'checkpoint = $6', values: [checkpoint] })
}

/**
 * What changes with the rows at the end of a checkpoint. In direct loads the rows are visible, and so is the cursor.
 */
export async function setCursor(
  session: Session,
  owner: MarkOwner,
  { checkpoint, cursor, visible }: { checkpoint: number; cursor: Json; visible: boolean },
): Promise<void> {
  const set = visible ? 'cursor = $6, base_cursor = $6' : 'cursor = $6'
  await changeMark(session, owner, checkpoint, { set, values: [toJson(cursor)] })
}

/** First statement of the publishing transaction. */
export async function publishMark(
  session: Session,
  owner: MarkOwner,
  { checkpoint, cursor }: { checkpoint: number; cursor: Json },
): Promise<void> {
  const set = 'cursor = $6, base_cursor = $6, published = true, stage = NULL'
  await changeMark(session, owner, checkpoint, { set, values: [toJson(cursor)] })
}

/** With `reset`, forgets the checkpoints whose rows were in the stage. */
export async function setStage(
  session: Session,
  owner: MarkOwner,
  { checkpoint, stage, reset }: { checkpoint: number; stage: string | null; reset: boolean },
): Promise<void> {
  const set = `stage = $6${reset ? ', checkpoint = 0, cursor = base_cursor' : ''}`
  await changeMark(session, owner, checkpoint, { set, values: [stage] })
}

async function changeMark(
  session: Session,
  owner: MarkOwner,
  checkpoint: number,
  { set, values }: { set: string; values: unknown[] },
): Promise<void> {
  const rows = await session.query(
    `UPDATE ${marksOf(owner.schema)} SET ${set}, updated_at = now()
     WHERE pipeline_id = $1 AND seq = $2 AND attempt = $3 AND checkpoint = $4 AND token = $5 AND NOT published RETURNING 1`,
    [owner.pipeline_id, owner.seq, owner.attempt, checkpoint, owner.token, ...values],
  )
  if (rows.length !== 1) throw fencedError(await lockMark(session, owner), owner)
}

function toJson(value: Json): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value)
}

const LOCK_WAIT_SECONDS = 1
const TRIES = 90

/**
 * Fences, and ends sessions of older attempts that hold the row: a process stopped in the middle of a COPY would hold
 * it forever.
 */
export async function fence(session: Session, owner: MarkOwner): Promise<MarkRow | null> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await inTransaction(session, async () => {
        await session.script(`SET LOCAL lock_timeout = '${LOCK_WAIT_SECONDS}s'`)
        return takeMark(session, owner)
      })
    } catch (error) {
      if (codeOf(error) !== sqlState.lockNotAvailable || tries === TRIES) throw error
      // Without the right to end it there is its own time-out to wait for.
      await inTransaction(session, () => endOlderAttempts(session, owner)).catch(() => undefined)
    }
  }
}

export function applicationOf(owner: MarkOwner): string {
  return `sluice ${owner.pipeline_id} ${owner.seq}.${owner.attempt}`
}

/**
 * Never newer ones: the session that holds the row may be our successor, and then this attempt has to stop. A session of
 * the same attempt is not ours, which has no other yet: it is of a worker that we replace, or of a connection we lost. And
 * only those in a transaction: a pooler's connection keeps the name of its last client, and may serve another by now.
 */
export async function endOlderAttempts(session: Session, owner: MarkOwner): Promise<void> {
  await session.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
       AND CASE WHEN application_name ~ ('^sluice ' || $1 || ' [0-9]{1,18}[.][0-9]{1,9}$')
                THEN (substring(application_name FROM '([0-9]+)[.][0-9]+$')::bigint, substring(application_name FROM '[.]([0-9]+)$')::integer)
                     <= ($2::bigint, $3::integer) END`,
    [owner.pipeline_id, owner.seq, owner.attempt],
  )
}
