/**
 * Cleanup of expired and orphaned data. Each step is independent, reads page by page, and works for several
 * organizations in parallel. A failure is reported, left for the next time, and does not stop the others. Every step
 * may be interrupted and repeated; blobs are removed before the row that names them forgets them.
 */

import type { BlobStore } from '../blobs/blobs.ts'
import { runPrefix } from '../blobs/run-keys.ts'
import { forgetEndedLeases } from '../connections/refresh-tokens.ts'
import { forgetOldTokens } from '../connections/superseded-tokens.ts'
import { type Database, sql } from '../database/database.ts'
import { removeStrayParts } from '../engine/stage.ts'
import { forEachFairly } from '../for-each-fairly.ts'
import { deleteExpiredRows } from '../identity/expired-rows.ts'
import { deleteExpiredTickets } from '../runs/download.ts'
import { packLogs } from '../runs/log-packing.ts'
import { forgetUsedConfigs } from '../runs/used-config.ts'
import type { Services } from '../services.ts'
import { AT_ONCE, type EndedRun, forEachPage, isLastSuccess } from './ended-runs.ts'
import { forgetOldAudit, forgetOldRuns } from './history.ts'

type CleanupServices = Pick<Services, 'db' | 'blobs' | 'log'>
type HourlyServices = CleanupServices & Pick<Services, 'config' | 'box'>

/** A prefix that could not be removed is retried after this time. */
const AGAIN_AFTER_SECONDS = 600
/** A live writer pauses longer than an hour between two writes only if it hangs. */
const LEFTOVER_MS = 6 * 3600 * 1000

export const cleanUpOften = (services: CleanupServices): Promise<void> =>
  doEach(services, {
    'removing the blobs of deleted pipelines': () => removeDeletedRuns(services),
    'removing parts that no run names': () => removeLeftStages(services),
    'packing logs': () => packLogs(services.db, services.blobs, report(services, 'a log could not be packed')),
    // Often, because anyone can create such rows without an account.
    'deleting expired sessions and sign-ins': () => deleteExpiredRows(services.db),
    'deleting expired tickets': () => deleteExpiredTickets(services.db),
  })

export const cleanUpHourly = (services: HourlyServices): Promise<void> =>
  doEach(services, {
    'expiring outputs': () => expireOutputs(services, services.config.RUN_RETENTION_DAYS),
    'deleting old runs': () => forget(forgetOldRuns, services, services.config.RUN_HISTORY_DAYS),
    'deleting old entries of the audit log': () =>
      forget(forgetOldAudit, services, services.config.AUDIT_RETENTION_DAYS),
    'sweeping the blob store': () => services.blobs.sweep(LEFTOVER_MS),
    'forgetting leases of refresh tokens': () => forgetEndedLeases(services.db),
    'forgetting replaced refresh tokens': () => forgetOldTokens(services.db),
    'forgetting old configurations of pipelines with many': () => forgetUsedConfigs(services.db),
  })

/** Without a number of days they are kept for ever. */
const forget = async (
  step: (db: Database, days: number) => Promise<number>,
  { db }: CleanupServices,
  days: number | undefined,
): Promise<number> => (days === undefined ? 0 : step(db, days))

/**
 * Two at a time: each needs a connection, and more of them than the pool keeps open would be opened and closed every few
 * seconds, which costs an idle installation more than all its queries.
 */
async function doEach({ log }: CleanupServices, steps: Record<string, () => Promise<unknown>>): Promise<void> {
  const left = Object.entries(steps)
  const work = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [what, step] = next
      await step().catch((error: Error) => log.warn({ err: error }, `${what} failed; trying again soon`))
    }
  }
  await Promise.all([work(), work()])
}

const report =
  ({ log }: CleanupServices, what: string) =>
  (error: Error) =>
    log.warn({ err: error }, `${what}; trying again later`)

/** Blobs of runs whose rows were deleted with their pipeline. */
export async function removeDeletedRuns(services: CleanupServices): Promise<void> {
  const { db, blobs } = services
  for (;;) {
    // Claimed prefixes are postponed first: two schedulers share the work, and a failing prefix does not block the
    // others.
    const rows = await db.query<{ prefix: string; organization_id: string }>(sql`
      UPDATE blob_deletions SET due_at = now() + make_interval(secs => ${AGAIN_AFTER_SECONDS})
       WHERE prefix IN (SELECT prefix FROM blob_deletions WHERE due_at <= now() ORDER BY due_at LIMIT ${AT_ONCE} FOR UPDATE SKIP LOCKED)
      RETURNING prefix, split_part(prefix, '/', 1) AS organization_id`)
    if (rows.length === 0) return
    await forEachFairly(
      rows,
      async ({ prefix }) => {
        await removePrefix(blobs, prefix)
        await db.execute(sql`DELETE FROM blob_deletions WHERE prefix = ${prefix}`)
      },
      report(services, 'blobs of a deleted pipeline could not be removed'),
    )
  }
}

async function removePrefix(blobs: BlobStore, prefix: string): Promise<void> {
  const keys: string[] = []
  for await (const { key } of blobs.list(prefix)) keys.push(key)
  if (keys.length > 0) await blobs.delete(keys)
}

/** Parts that no list names: of lost attempts, of failed and cancelled runs, and those that a conversion replaced. */
export function removeLeftStages(services: CleanupServices): Promise<number> {
  const { db, blobs } = services
  return forEachPage(
    (after) =>
      db.query<EndedRun & Record<'output_parts' | 'quarantine_parts', { key: string }[] | null>>(sql`
        SELECT id, organization_id, finished_at, output_parts, quarantine_parts FROM runs
         WHERE stage_left AND finished_at < now() - interval '30 seconds' AND (finished_at, id) > (${after.finished_at}, ${after.id})
         ORDER BY finished_at, id LIMIT ${AT_ONCE}`),
    (page) =>
      forEachFairly(
        page,
        async (run) => {
          const kept = [...(run.output_parts ?? []), ...(run.quarantine_parts ?? [])]
          await removeStrayParts(blobs, runPrefix(run), kept)
          await db.execute(sql`UPDATE runs SET stage_left = false WHERE id = ${run.id}`)
        },
        report(services, 'parts of a run could not be removed'),
      ),
  )
}

/** Expired outputs, quarantines and logs, except those of each pipeline's last success. */
export function expireOutputs(services: CleanupServices, days: number): Promise<number> {
  const { db, blobs } = services
  return forEachPage(
    (after) =>
      db.query<EndedRun & { last: boolean }>(sql`
        SELECT r.id, r.organization_id, r.finished_at,
               ${isLastSuccess} AS last
          FROM runs r
         WHERE (r.output_file IS NOT NULL OR r.log_key IS NOT NULL) AND r.finished_at < now() - make_interval(days => ${days})
           AND (r.finished_at, r.id) > (${after.finished_at}, ${after.id})
         ORDER BY r.finished_at, r.id LIMIT ${AT_ONCE}`),
    (page) =>
      forEachFairly(
        page.filter((run) => !run.last),
        async (run) => {
          await removePrefix(blobs, runPrefix(run))
          await db.execute(sql`
            UPDATE runs SET output_file = NULL, output_file_size = NULL, output_stored_bytes = NULL, output_parts = NULL, output_type = NULL, quarantine_parts = NULL, log_key = NULL WHERE id = ${run.id}`)
        },
        report(services, 'the output of a run could not be removed'),
      ),
  )
}
