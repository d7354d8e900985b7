/**
 * Packs logs: the chunk rows of a finished run become one compressed blob. An interruption loses nothing, and two
 * processes that pack the same run write the same bytes under the same key.
 */
import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { BlobStore } from '../blobs/blobs.ts'
import { logKey, type RunIdentity } from '../blobs/run-keys.ts'
import { type Queryable, sql } from '../database/database.ts'
import { NIL_UUID } from '../database/lists.ts'
import { forEachFairly } from '../for-each-fairly.ts'
import type { Chunk } from './log-reading.ts'

const compress = promisify(gzip)
const AT_ONCE = 500

/** Packs everything that is due and returns the number of runs; a run that fails does not stop the others. */
export async function packLogs(db: Queryable, blobs: BlobStore, onError: (error: Error) => void): Promise<number> {
  // Several schedulers start at different positions, so that they rarely meet.
  const middle = randomUUID()
  return (await packBetween(middle, null)) + (await packBetween(NIL_UUID, middle))

  async function packBetween(from: string, to: string | null): Promise<number> {
    let packed = 0
    for (let after: string | null = from; after !== null; ) {
      const page = await readPage(db, after, to)
      const due = page.filter((run) => run.due)
      packed += await forEachFairly(due, (run) => packLog(db, blobs, run), onError)
      after = page.length < AT_ONCE ? null : page.at(-1)!.id
    }
    return packed
  }
}

/** Runs that have chunks, by a loose index scan: one step per run, however long its log is. */
const readPage = (db: Queryable, after: string, to: string | null): Promise<(RunIdentity & { due: boolean })[]> =>
  db.query(sql`
    WITH RECURSIVE logged AS (
      (SELECT run_id FROM run_log_chunks WHERE run_id > ${after} ORDER BY run_id, number LIMIT 1)
      UNION ALL
      SELECT n.run_id FROM logged l CROSS JOIN LATERAL (
        SELECT k.run_id FROM run_log_chunks k WHERE k.run_id > l.run_id ORDER BY k.run_id, k.number LIMIT 1) n
    )
    SELECT r.id, r.organization_id, r.log_key IS NULL AND coalesce(r.finished_at < now() - interval '2 minutes', false) AS due
      FROM (SELECT run_id FROM logged WHERE run_id <= coalesce(${to}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') LIMIT ${AT_ONCE}) l
      JOIN runs r ON r.id = l.run_id ORDER BY r.id`)

async function packLog(db: Queryable, blobs: BlobStore, run: RunIdentity): Promise<void> {
  const chunks = await db.query<Chunk>(
    sql`SELECT first_line, line_count, lines FROM run_log_chunks WHERE run_id = ${run.id} ORDER BY number`,
  )
  // Another scheduler has packed it since, and an empty blob must not replace its blob.
  if (chunks.length === 0) return
  const key = logKey(run)
  await blobs.put(key, await compress(JSON.stringify(chunks)))
  await db.execute(sql`
    WITH named AS (UPDATE runs SET log_key = ${key} WHERE id = ${run.id} AND log_key IS NULL RETURNING id)
    DELETE FROM run_log_chunks WHERE run_id IN (SELECT id FROM named)`)
}
