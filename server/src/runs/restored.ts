/**
 * What a database that was restored from a backup needs before its runs may load again. Destinations hold marks of runs that
 * this database does not know: run numbers above its sequence, and higher attempts of runs that had not ended.
 *
 * - New runs, and those that wait, get numbers above every one that may have been given out since the backup.
 * - Every run that had not ended waits again, with a higher attempt and without its checkpoints. What followed the backup
 *   is not known here: a destination with a mark says itself how far a run came; all others start over, because the parts
 *   that were staged may be gone.
 * - The installation gets a new id, so that marks tell whether they were written before or after.
 *
 * Doing it twice, or without need, costs nothing but numbers.
 */
import { type Database, type Queryable, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'
import { appendLine } from './log.ts'

/** More runs than can have been triggered since a backup; nine million restores fit into a safe integer. */
const NUMBERS = 1_000_000_000
/** More attempts than a run has. */
const ATTEMPTS = 1000

export interface Restored {
  installation: string
  /** Runs that had not ended at the time of the backup. */
  unfinished: number
}

export const markRestored = (db: Database): Promise<Restored> => db.transaction(markRestoredIn)

/** In a transaction of the caller. */
export async function markRestoredIn(tx: Queryable): Promise<Restored> {
  // One at a time: two would renumber the same runs in different orders.
  const row = await tx.first<{ id: string }>(
    sql`UPDATE installation SET id = gen_random_uuid(), since = now() RETURNING id`,
  )
  await tx.execute(sql`SELECT setval('run_seq', nextval('run_seq') + ${NUMBERS})`)
  const begun = await renumber(tx)
  for (const { id, had_begun } of begun) if (had_begun) await appendLine(tx, id, 'warn', SENTENCE)
  await tx.execute(notifyRun('ready'))
  return { installation: row!.id, unfinished: begun.length }
}

const SENTENCE =
  "The platform's database was restored from a backup taken while this run was in progress. It starts another attempt, and resumes from what the destination has."

/** In the order in which they were triggered. */
const renumber = (tx: Queryable): Promise<{ id: string; had_begun: boolean }[]> =>
  tx.query(sql`
    WITH unfinished AS (
      SELECT id, attempt > 0 AS had_begun FROM runs WHERE status IN ('pending', 'running') ORDER BY seq FOR UPDATE),
    numbered AS (SELECT id, had_begun, nextval('run_seq') AS seq FROM unfinished)
    UPDATE runs r
       SET seq = n.seq, attempt = r.attempt + ${ATTEMPTS}, status = 'pending', worker = NULL, lease_until = NULL, available_at = now(),
           checkpoint = 0, cursor = NULL, parts = '[]', quarantine_parts = NULL, records_quarantined = 0
      FROM numbered n WHERE r.id = n.id RETURNING r.id, n.had_begun`)
