/**
 * Packing logs: one compressed blob is made of the chunk rows of a run that has ended a while ago. Interrupted anywhere, it
 * loses nothing, and two who pack the same run write the same bytes under the same key.
 */
import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { BlobStore } from '../blobs/blobs.ts'
import { logKey, type RunIdentity } from '../blobs/run-keys.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { Chunk } from './log-reading.ts'
import { sideBySide } from './side-by-side.ts'

const compress = promisify(gzip)
const AT_ONCE = 500
const FIRST = '00000000-0000-0000-0000-000000000000'

/** Packs all that is there to pack and returns how many runs that were; one that cannot be packed keeps none of the others. */
export async function packLogs(db: Queryable, blobs: BlobStore, onError: (error: Error) => void): Promise<number> {
  // Several schedulers begin at different places, so that they seldom meet.
  const middle = randomUUID()
  return (await packBetween(middle, null)) + (await packBetween(FIRST, middle))

  async function packBetween(from: string, to: string | null): Promise<number> {
    let packed = 0
    for (let after: string | null = from; after !== null; ) {
      const page = await readPage(db, after, to)
      const due = page.filter((run) => run.due)
      packed += await sideBySide(due, (run) => packLog(db, blobs, run), onError)
      after = page.length < AT_ONCE ? null : page.at(-1)!.id
    }
    return packed
  }
}

/** Runs that have chunks, by a loose index scan: one step for each run, however long its log is. */
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
  const key = logKey(run)
  await blobs.put(key, await compress(JSON.stringify(chunks)))
  await db.execute(sql`
    WITH named AS (UPDATE runs SET log_key = ${key} WHERE id = ${run.id} AND log_key IS NULL RETURNING id)
    DELETE FROM run_log_chunks WHERE run_id IN (SELECT id FROM named)`)
}
