/**
 * Tidying: what has ended and must not stay. Every step may be interrupted and done again; what is named in a row is
 * removed from the blob store before the row forgets it.
 */

import type { BlobStore } from '../blobs/blobs.ts'
import { runPrefix } from '../blobs/run-keys.ts'
import { forgetEndedLeases } from '../connections/refresh-tokens.ts'
import { forgetOldTokens } from '../connections/superseded-tokens.ts'
import { type Database, sql } from '../database/database.ts'
import { removeStrayParts } from '../engine/stage.ts'
import { forgetEndedSessions } from '../identity/sessions.ts'
import { packLogs } from '../runs/log-reading.ts'
import type { Services } from '../services.ts'

const AT_ONCE = 100
/** Writers that live may be older than an hour between two writes only if they hang. */
const LEFTOVER_MS = 6 * 3600 * 1000

export async function tidyOften({ db, blobs }: Services): Promise<void> {
  await removeDeletedRuns(db, blobs)
  await removeLeftStages(db, blobs)
  await packLogs(db, blobs)
  // Often, for anybody can make such rows without an account.
  await forgetEndedSessions(db)
}

export async function tidyHourly({ db, blobs, config }: Services): Promise<void> {
  await forgetEndedLeases(db)
  await forgetOldTokens(db)
  await expireOutputs(db, blobs, config.RUN_RETENTION_DAYS)
  await blobs.sweep(LEFTOVER_MS)
}

/** Blobs of runs whose rows are gone with their pipeline. */
export async function removeDeletedRuns(db: Database, blobs: BlobStore): Promise<void> {
  for (;;) {
    const rows = await db.query<{ prefix: string }>(
      sql`SELECT prefix FROM blob_deletions WHERE due_at <= now() ORDER BY due_at LIMIT ${AT_ONCE}`,
    )
    for (const { prefix } of rows) await removePrefix(blobs, prefix)
    await db.execute(sql`DELETE FROM blob_deletions WHERE prefix = ANY (${rows.map(({ prefix }) => prefix)}::text[])`)
    if (rows.length < AT_ONCE) return
  }
}

async function removePrefix(blobs: BlobStore, prefix: string): Promise<void> {
  const keys: string[] = []
  for await (const { key } of blobs.list(prefix)) keys.push(key)
  if (keys.length > 0) await blobs.delete(keys)
}

/** Parts that no list names: of lost attempts, of failed and cancelled runs, and of what a conversion replaced. */
async function removeLeftStages(db: Database, blobs: BlobStore): Promise<void> {
  const runs = await db.query<{ id: string; organization_id: string; output_parts: { key: string }[] | null }>(sql`
    SELECT id, organization_id, output_parts FROM runs
     WHERE stage_left AND finished_at < now() - interval '30 seconds' ORDER BY finished_at LIMIT ${AT_ONCE}`)
  for (const run of runs) {
    const keep = (run.output_parts ?? []).map((part) => ({ ...part, checkpoint: 0, size: 0, records: 0 }))
    await removeStrayParts(blobs, runPrefix(run), keep)
    await db.execute(sql`UPDATE runs SET stage_left = false WHERE id = ${run.id}`)
  }
}

/** Outputs and logs whose time is over, except those of each pipeline's last success. */
export async function expireOutputs(db: Database, blobs: BlobStore, days: number): Promise<number> {
  const runs = await db.query<{ id: string; organization_id: string }>(sql`
    SELECT r.id, r.organization_id FROM runs r
     WHERE (r.output_file IS NOT NULL OR r.log_key IS NOT NULL) AND r.finished_at < now() - make_interval(days => ${days})
       AND r.id IS DISTINCT FROM (SELECT s.id FROM runs s WHERE s.pipeline_id = r.pipeline_id AND s.status = 'success' ORDER BY s.seq DESC LIMIT 1)
     ORDER BY r.finished_at LIMIT ${AT_ONCE}`)
  for (const run of runs) {
    await removePrefix(blobs, runPrefix(run))
    await db.execute(sql`
      UPDATE runs SET output_file = NULL, output_file_size = NULL, output_parts = NULL, output_type = NULL, log_key = NULL WHERE id = ${run.id}`)
  }
  return runs.length === AT_ONCE ? runs.length + (await expireOutputs(db, blobs, days)) : runs.length
}
