/**
 * Leases. A worker renews those of its attempts together, and stops an attempt that the database no longer assigns to
 * it. A worker that cannot renew stops its executors before the leases expire, so that the next worker does not overlap
 * with them. If it comes back too late anyway, its attempt number (the fencing token) no longer matches.
 *
 * A lease counts from the moment before its request was sent, because the answer may have been delayed.
 */
import { type Queryable, sql } from '../database/database.ts'
import type { Attempt } from './attempt.ts'
import { type RunLease, saveProgress } from './finish.ts'
import { ageMs, takeMoment } from './moment.ts'
import { isRunning } from './states.ts'
import type { WorkerServices } from './worker-services.ts'

/** As a share of the lease; the rest is for the processes to exit. */
const GIVE_UP_AFTER = 0.8

export interface Leases {
  renew(): Promise<void>
  /** Stops attempts that were cancelled or taken over, for workers that do not listen. */
  look(): Promise<void>
  /** Stops attempts whose lease is about to expire unrenewed. */
  stopExpiring(): void
  writeProgress(): Promise<void>
}

export function keepLeases(services: WorkerServices, listAttempts: () => Attempt[]): Leases {
  const leaseMs = services.config.RUN_LEASE_SECONDS * 1000
  return {
    async renew() {
      // Only the attempts in the request: a run claimed meanwhile is missing from the answer but not lost.
      const asked = listAttempts()
      if (asked.length === 0) return
      const sentAt = takeMoment()
      const runs = asked.map(({ run }) => run)
      const kept = new Set(await renewLeases(services.db.control, runs, services.config.RUN_LEASE_SECONDS))
      for (const attempt of asked) if (kept.has(attempt.run.id)) attempt.leasedAt = sentAt
      await stopEnded(
        services,
        asked.filter((attempt) => !kept.has(attempt.run.id)),
      )
    },
    look: () => stopEnded(services, listAttempts()),
    stopExpiring() {
      for (const attempt of listAttempts())
        if (ageMs(attempt.leasedAt) >= leaseMs * GIVE_UP_AFTER) attempt.stop('cut off')
    },
    async writeProgress() {
      const moved = listAttempts().flatMap((attempt) => {
        const { run, progress } = attempt
        attempt.progress = null
        return progress ? [{ id: run.id, attempt: run.attempt, worker: run.worker, ...progress }] : []
      })
      if (moved.length > 0) await saveProgress(services.db.control, moved)
    },
  }
}

/** Renews the leases of the attempts that still have their runs, and returns the ids of these. */
export async function renewLeases(
  db: Queryable,
  runs: Pick<RunLease, 'id' | 'attempt' | 'worker'>[],
  leaseSeconds: number,
): Promise<string[]> {
  const rows = await db.query<{ id: string }>(sql`
    UPDATE runs r SET lease_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
      FROM unnest(${runs.map(({ id }) => id)}::uuid[], ${runs.map(({ attempt }) => attempt)}::int[], ${runs.map(({ worker }) => worker)}::text[]) AS u (id, attempt, worker)
     WHERE r.id = u.id AND r.attempt = u.attempt AND r.worker = u.worker AND ${isRunning('r')} RETURNING r.id`)
  return rows.map((row) => row.id)
}

/** Stops attempts that no longer own their run. */
async function stopEnded({ db }: WorkerServices, attempts: Attempt[]): Promise<void> {
  if (attempts.length === 0) return
  const rows = await db.control.query<{ id: string; attempt: number; worker: string | null; status: string }>(
    sql`SELECT id, attempt, worker, status FROM runs WHERE id = ANY (${attempts.map(({ run }) => run.id)}::uuid[])`,
  )
  const found = new Map(rows.map((row) => [row.id, row]))
  for (const attempt of attempts) {
    const row = found.get(attempt.run.id)
    if (row?.attempt !== attempt.run.attempt) attempt.stop('lost')
    else if (row.status !== 'running') attempt.stop(row.status === 'cancelled' ? 'cancelled' : 'lost')
    else if (row.worker !== attempt.run.worker) attempt.stop('lost')
  }
}
