/**
 * Leases. A worker renews those of its attempts together, and stops an attempt that the database no longer counts as its
 * own. A worker that cannot renew stops its executors before the leases end, so that whoever takes the runs over finds
 * them quiet. Should it come back too late all the same, its attempt number matches nothing any more.
 */
import { sql } from '../database/database.ts'
import type { Attempt } from './attempt.ts'
import { saveProgress } from './finish.ts'
import type { WorkerServices } from './worker-services.ts'

/** Of the lease; the rest is for the processes to go. */
const GIVE_UP_AFTER = 0.8

export interface Leases {
  renew(): Promise<void>
  /** Stops everything when the leases are about to end unrenewed. */
  giveUpInTime(): void
  writeProgress(): Promise<void>
}

export function keepLeases(services: WorkerServices, listAttempts: () => Attempt[]): Leases {
  const leaseMs = services.config.RUN_LEASE_SECONDS * 1000
  let renewedAt = Date.now()
  return {
    async renew() {
      // Only those that were asked about: a run that was claimed meanwhile is in no answer and not lost.
      const asked = listAttempts()
      const kept = new Set(asked.length > 0 ? await renewLeases(services, asked) : [])
      renewedAt = Date.now()
      for (const attempt of asked)
        if (!kept.has(attempt.run.id)) attempt.stop((await isCancelled(attempt)) ? 'cancelled' : 'lost')
    },
    giveUpInTime() {
      if (Date.now() - renewedAt < leaseMs * GIVE_UP_AFTER) return
      for (const attempt of listAttempts()) attempt.stop('lost')
    },
    async writeProgress() {
      const moved = listAttempts().flatMap((attempt) => {
        const { run, progress } = attempt
        attempt.progress = null
        return progress ? [{ id: run.id, attempt: run.attempt, ...progress }] : []
      })
      if (moved.length > 0) await saveProgress(services.db, moved)
    },
  }
}

async function renewLeases({ db, config }: WorkerServices, attempts: Attempt[]): Promise<string[]> {
  const rows = await db.query<{ id: string }>(sql`
    UPDATE runs r SET lease_until = now() + make_interval(secs => ${config.RUN_LEASE_SECONDS})
      FROM unnest(${attempts.map(({ run }) => run.id)}::uuid[], ${attempts.map(({ run }) => run.attempt)}::int[]) AS u (id, attempt)
     WHERE r.id = u.id AND r.attempt = u.attempt AND r.status = 'running' RETURNING r.id`)
  return rows.map((row) => row.id)
}

async function isCancelled({ services, run }: Attempt): Promise<boolean> {
  const row = await services.db.first(
    sql`SELECT 1 FROM runs WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'cancelled'`,
  )
  return row !== null
}
