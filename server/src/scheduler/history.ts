/**
 * Old rows of runs and of the audit log, deleted where the operator sets how long they are kept. A few hundred at a time,
 * each in a statement of its own: no lock is held for long, and an interruption loses nothing.
 */
import { runPrefix } from '../blobs/run-keys.ts'
import { type Database, sql } from '../database/database.ts'
import { AT_ONCE, type EndedRun, forEachPage, isLastSuccess } from './ended-runs.ts'

/**
 * Each pipeline keeps its last run and its last success, which lists show and the next run may go on from. Blobs of the
 * others are queued for removal in the statement that deletes their rows.
 */
export const forgetOldRuns = (db: Database, days: number): Promise<number> =>
  forEachPage(
    (after) =>
      db.query<EndedRun & { kept: boolean }>(sql`
        SELECT r.id, r.organization_id, r.finished_at,
               r.seq = (SELECT s.seq FROM runs s WHERE s.pipeline_id = r.pipeline_id ORDER BY s.seq DESC LIMIT 1) OR ${isLastSuccess} AS kept
          FROM runs r
         WHERE r.finished_at < now() - make_interval(days => ${days}) AND (r.finished_at, r.id) > (${after.finished_at}, ${after.id})
         ORDER BY r.finished_at, r.id LIMIT ${AT_ONCE}`),
    (page) =>
      deleteRuns(
        db,
        page.filter(({ kept }) => !kept),
      ),
  )

const deleteRuns = (db: Database, runs: readonly EndedRun[]): Promise<number> =>
  db.execute(sql`
    WITH queued AS (INSERT INTO blob_deletions (prefix) SELECT unnest(${runs.map(runPrefix)}::text[]) ON CONFLICT DO NOTHING)
    DELETE FROM runs WHERE id = ANY(${runs.map(({ id }) => id)}::uuid[])`)

/** By organization, as the indexes are. */
export async function forgetOldAudit(db: Database, days: number): Promise<number> {
  const organizations = await db.query<{ id: string | null }>(sql`SELECT id FROM organizations UNION ALL SELECT NULL`)
  let forgotten = 0
  for (const { id } of organizations) {
    const owner = id === null ? sql`organization_id IS NULL` : sql`organization_id = ${id}`
    for (let count = AT_ONCE; count === AT_ONCE; forgotten += count)
      count = await db.execute(sql`
        DELETE FROM audit_log WHERE id IN (
          SELECT id FROM audit_log WHERE ${owner} AND at < now() - make_interval(days => ${days}) ORDER BY at LIMIT ${AT_ONCE})`)
  }
  return forgotten
}
