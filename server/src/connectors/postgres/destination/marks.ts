/**
 * The mark of a pipeline in its target schema: how far its load has come, changed only in the transaction that loads the
 * rows. Every change names the attempt it belongs to, so an older attempt that comes back finds no row and stops. Because
 * it must take the row first, it queues behind its successor instead of racing it.
 *
 *   seq, attempt     whose attempt it is
 *   checkpoint       the last one committed of run `seq`; 0: none
 *   cursor           where the source resumes after it
 *   base_cursor      the cursor of what is visible: differs from `cursor` while rows are still staged
 *   published        the run is visible as a whole
 *   stage            the table that holds rows which are not visible yet
 */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { quoteName, quoteTable } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, type RowOf, readBoolean, readInteger, readJson, readText } from '../shared/values.ts'

const marksTable = '_sluice_marks'

const markRow = {
  run_id: readText,
  seq: readInteger,
  attempt: readInteger,
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
}

export function fencedError(): ConnectorError {
  return new ConnectorError(
    'internal',
    'This attempt was fenced: a newer attempt of the pipeline has taken over, and nothing more of this one is loaded',
  )
}

export function marksOf(schema: string): string {
  return quoteTable({ schema, table: marksTable })
}

/**
 * Creates schema and table if they are missing. Two sessions doing so at once would collide in the catalog, so they
 * take turns.
 */
export async function ensureMarks(session: Session, schema: string): Promise<void> {
  const exists = 'SELECT to_regclass($1) IS NOT NULL AS found'
  const [before] = await session.query(exists, [marksOf(schema)], { found: readBoolean })
  if (before?.found) return
  await session.script("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('sluice marks', 0))")
  const [spaces] = await session.query('SELECT to_regnamespace($1) IS NOT NULL AS found', [quoteName(schema)], {
    found: readBoolean,
  })
  if (!spaces?.found) await session.script(`CREATE SCHEMA ${quoteName(schema)}`)
  await session.script(
    `CREATE TABLE IF NOT EXISTS ${marksOf(schema)} (
       pipeline_id text PRIMARY KEY, run_id text NOT NULL, seq int8 NOT NULL, attempt int4 NOT NULL, checkpoint int8 NOT NULL,
       cursor json, base_cursor json, published boolean NOT NULL, stage text, updated_at timestamptz NOT NULL DEFAULT now()
     ) WITH (fillfactor = 50);
     COMMENT ON TABLE ${marksOf(schema)} IS 'How far Sluice has loaded each pipeline. Written together with the rows; keep it with them.';
     COMMIT`,
  )
}

/** The row, locked until the transaction ends; this also waits for a COMMIT whose answer was lost. */
export async function lockMark(session: Session, { schema, pipeline_id }: MarkOwner): Promise<MarkRow | null> {
  const [row] = await session.query(
    `SELECT run_id, seq, attempt, checkpoint, cursor, base_cursor, published, stage, xmin::text AS changed_by FROM ${marksOf(schema)}
     WHERE pipeline_id = $1 FOR UPDATE`,
    [pipeline_id],
    markRow,
  )
  return row ?? null
}

/**
 * Takes the mark for a newer attempt. Returns the row as it was, except that checkpoints whose stage is gone are reset.
 * The same attempt may take it again, because the answer to its first try may have been lost.
 */
async function takeMark(session: Session, owner: MarkOwner): Promise<MarkRow | null> {
  const table = marksOf(owner.schema)
  await session.query(
    `INSERT INTO ${table} (pipeline_id, run_id, seq, attempt, checkpoint, published) VALUES ($1, '', -1, 0, 0, false) ON CONFLICT DO NOTHING`,
    [owner.pipeline_id],
  )
  const row = await lockMark(session, owner)
  if (row === null) throw fencedError()
  if (row.seq > owner.seq || (row.seq === owner.seq && row.attempt > owner.attempt)) throw fencedError()
  const sameRun = row.seq === owner.seq
  const lost = sameRun && row.stage !== null && !row.published && !(await tableExists(session, owner.schema, row.stage))
  const stands = sameRun && !lost ? row : { ...row, checkpoint: 0, cursor: row.base_cursor }
  await session.query(
    `UPDATE ${table} SET run_id = $2, seq = $3, attempt = $4, checkpoint = $5, cursor = $6, published = $7, updated_at = now() WHERE pipeline_id = $1`,
    [
      owner.pipeline_id,
      owner.run_id,
      owner.seq,
      owner.attempt,
      stands.checkpoint,
      toJson(stands.cursor),
      sameRun && row.published,
    ],
  )
  if (row.seq < 0) return null
  // For an earlier run, the visible position is its base cursor.
  return sameRun ? stands : { ...row, cursor: row.base_cursor }
}

export async function tableExists(session: Session, schema: string, table: string): Promise<boolean> {
  const [row] = await session.query('SELECT to_regclass($1) IS NOT NULL AS found', [quoteTable({ schema, table })], {
    found: readBoolean,
  })
  return row?.found === true
}

/** First statement of a checkpoint's transaction. */
export async function advanceMark(session: Session, owner: MarkOwner, checkpoint: number): Promise<void> {
  await changeMark(session, owner, checkpoint - 1, { set: 'checkpoint = $5', values: [checkpoint] })
}

/**
 * What changes with the rows at the end of a checkpoint. In direct loads the rows are visible, and so is the cursor.
 */
export async function setCursor(
  session: Session,
  owner: MarkOwner,
  { checkpoint, cursor, visible }: { checkpoint: number; cursor: Json; visible: boolean },
): Promise<void> {
  const set = visible ? 'cursor = $5, base_cursor = $5' : 'cursor = $5'
  await changeMark(session, owner, checkpoint, { set, values: [toJson(cursor)] })
}

/** First statement of the publishing transaction. */
export async function publishMark(
  session: Session,
  owner: MarkOwner,
  { checkpoint, cursor }: { checkpoint: number; cursor: Json },
): Promise<void> {
  const set = 'cursor = $5, base_cursor = $5, published = true, stage = NULL'
  await changeMark(session, owner, checkpoint, { set, values: [toJson(cursor)] })
}

/** With `reset`, forgets the checkpoints whose rows were in the stage. */
export async function setStage(
  session: Session,
  owner: MarkOwner,
  { checkpoint, stage, reset }: { checkpoint: number; stage: string | null; reset: boolean },
): Promise<void> {
  const set = `stage = $5${reset ? ', checkpoint = 0, cursor = base_cursor' : ''}`
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
     WHERE pipeline_id = $1 AND seq = $2 AND attempt = $3 AND checkpoint = $4 AND NOT published RETURNING 1`,
    [owner.pipeline_id, owner.seq, owner.attempt, checkpoint, ...values],
  )
  if (rows.length !== 1) throw fencedError()
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
    await session.script(`BEGIN; SET LOCAL lock_timeout = '${LOCK_WAIT_SECONDS}s'`)
    try {
      const row = await takeMark(session, owner)
      await session.script('COMMIT')
      return row
    } catch (error) {
      if (codeOf(error) !== sqlState.lockNotAvailable || tries === TRIES) throw error
      await session.script('ROLLBACK')
      await endOlderAttempts(session, owner)
    }
  }
}

export function applicationOf(owner: MarkOwner): string {
  return `sluice ${owner.pipeline_id} ${owner.seq}.${owner.attempt}`
}

/** Only older ones: the session that holds the row may be our successor, and then this attempt has to stop. */
export async function endOlderAttempts(session: Session, owner: MarkOwner): Promise<void> {
  await session
    .query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
         AND CASE WHEN application_name ~ ('^sluice ' || $1 || ' [0-9]{1,18}[.][0-9]{1,9}$')
                  THEN (substring(application_name FROM '([0-9]+)[.][0-9]+$')::bigint, substring(application_name FROM '[.]([0-9]+)$')::integer)
                       < ($2::bigint, $3::integer) END`,
      [owner.pipeline_id, owner.seq, owner.attempt],
    )
    // Without the privilege to end it, wait for its own timeout.
    .catch(() => {})
}
