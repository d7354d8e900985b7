/**
 * A worker: claims ready runs while it has free slots, supervises each, and keeps their leases. It wakes on NOTIFY, and
 * looks by itself now and then for what a lost message did not tell. It never touches the data.
 *
 * A worker that can not renew its leases stops its executors before the leases end, so that whoever takes the runs over
 * finds them quiet. Should it come back too late all the same, its attempt number matches nothing any more.
 */
import { cellSettings } from '../cell/settings.ts'
import { sql } from '../database/database.ts'
import { CHANNEL, readMessage } from '../database/notifications.ts'
import { createExecutorPool, type ExecutorPool } from '../executors/pool.ts'
import { claimRuns, nextAvailableMs } from './claim.ts'
import { saveProgress } from './finish.ts'
import { recoverLostRuns } from './recover.ts'
import { type Supervised, superviseRun } from './supervise.ts'
import type { WorkerServices } from './worker-services.ts'

const PROGRESS_MS = 1000
const LOOK_AT_MOST_MS = 5000
const WARM_EXECUTORS = 1

export interface Worker {
  /** Lets running runs finish until the deadline, then hands them over. */
  stop(deadline: AbortSignal): Promise<void>
}

export async function startWorker(services: WorkerServices): Promise<Worker> {
  const { db, config, log } = services
  const held = new Map<string, Supervised>()
  const pool: ExecutorPool = createExecutorPool({
    warm: Math.min(WARM_EXECUTORS, config.WORKER_CONCURRENCY),
    most: config.WORKER_CONCURRENCY,
    memoryMb: config.RUN_MEMORY_MB,
    settings: () => ({
      blobs: config,
      egress: { allow: config.EGRESS_ALLOW, self: services.ownAddresses },
      cell: cellSettings(config),
      checkpointMs: config.RUN_CHECKPOINT_MS,
    }),
  })
  const leaseMs = config.RUN_LEASE_SECONDS * 1000
  const lookMs = Math.min(LOOK_AT_MOST_MS, leaseMs / 3)
  let stopping = false
  let renewedAt = Date.now()
  let backOff: NodeJS.Timeout | undefined

  const claim = oneAtATime(async () => {
    while (!stopping && held.size < config.WORKER_CONCURRENCY) {
      const runs = await claimRuns(db, config.instance, {
        free: config.WORKER_CONCURRENCY - held.size,
        perOrganization: config.ORG_CONCURRENCY,
        leaseSeconds: config.RUN_LEASE_SECONDS,
      })
      for (const run of runs) {
        const supervised = superviseRun(services, pool, run)
        held.set(run.id, supervised)
        void supervised.done.then(() => {
          held.delete(run.id)
          wake()
        })
      }
      if (runs.length === 0) break
    }
  })
  const wake = () => {
    claim().catch((error: Error) => log.warn({ err: error }, 'claiming runs failed; trying again soon'))
  }
  const look = async () => {
    await recoverLostRuns(db)
    services.state.queue = 'ok'
    wake()
    const ms = await nextAvailableMs(db)
    clearTimeout(backOff)
    if (ms !== null && ms < lookMs) backOff = setTimeout(wake, ms + 5)
  }
  const renew = async () => {
    if (held.size === 0) {
      renewedAt = Date.now()
      return
    }
    // Only those that were asked about: a run that was claimed meanwhile is in no answer and not lost.
    const asked = [...held.values()]
    const kept = new Set(await renewLeases(services, asked))
    renewedAt = Date.now()
    for (const supervised of asked)
      if (!kept.has(supervised.run.id))
        supervised.stop((await isCancelled(services, supervised)) ? 'cancelled' : 'lost')
  }
  const fail = (what: string) => (error: Error) => {
    services.state.queue = `${what} fails`
    log.warn({ err: error }, `${what} failed; trying again soon`)
  }
  /** What was told while nobody listened is found by looking. */
  const lookNow = () => void look().catch(fail('looking for waiting and lost runs'))
  const giveUpSilently = () => {
    // Before the lease ends, with room for the processes to go.
    if (Date.now() - renewedAt < leaseMs * 0.8) return
    for (const supervised of held.values()) supervised.stop('lost')
  }
  // First of all, for this alone can fail: where there is no database, nothing must be left behind that keeps us alive.
  const stopListening = await db
    .listen(
      CHANNEL,
      (payload) => {
        const { message, run_id } = readMessage(payload)
        if (message === 'ready') wake()
        if (message === 'cancel') held.get(run_id)?.stop('cancelled')
      },
      lookNow,
    )
    .catch(async (error: Error) => {
      await pool.close()
      throw error
    })
  const timers = [
    setInterval(lookNow, lookMs),
    setInterval(() => void renew().catch(fail('renewing leases')), leaseMs / 4),
    setInterval(() => void writeProgress(services, held).catch(fail('noting progress')), PROGRESS_MS),
    setInterval(giveUpSilently, Math.min(1000, leaseMs / 10)),
  ]

  return {
    async stop(deadline) {
      stopping = true
      // A claim under way may still bring runs; they are handed over or finished like the others.
      await claim().catch(() => {})
      const handOverAll = () => {
        for (const supervised of held.values()) supervised.stop('handed over')
      }
      if (deadline.aborted) handOverAll()
      else deadline.addEventListener('abort', handOverAll)
      await Promise.all([...held.values()].map((supervised) => supervised.done))
      for (const timer of timers) clearInterval(timer)
      clearTimeout(backOff)
      await stopListening()
      await pool.close()
    },
  }
}

/** Calls made while one is under way are answered by one more call after it. */
function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null
  let again = false
  return () => {
    if (running) {
      again = true
      return running
    }
    running = (async () => {
      try {
        do {
          again = false
          await work()
        } while (again)
      } finally {
        running = null
      }
    })()
    return running
  }
}

async function renewLeases({ db, config }: WorkerServices, held: Supervised[]): Promise<string[]> {
  const rows = await db.query<{ id: string }>(sql`
    UPDATE runs r SET lease_until = now() + make_interval(secs => ${config.RUN_LEASE_SECONDS})
      FROM unnest(${held.map(({ run }) => run.id)}::uuid[], ${held.map(({ run }) => run.attempt)}::int[]) AS u (id, attempt)
     WHERE r.id = u.id AND r.attempt = u.attempt AND r.status = 'running' RETURNING r.id`)
  return rows.map((row) => row.id)
}

async function isCancelled({ db }: WorkerServices, { run }: Supervised): Promise<boolean> {
  return (
    (await db.first(
      sql`SELECT 1 FROM runs WHERE id = ${run.id} AND attempt = ${run.attempt} AND status = 'cancelled'`,
    )) !== null
  )
}

async function writeProgress({ db }: WorkerServices, held: Map<string, Supervised>): Promise<void> {
  const moved = [...held.values()].filter((supervised) => supervised.progress !== null)
  if (moved.length === 0) return
  const rows = moved.map(({ run, progress }) => ({
    id: run.id,
    organization_id: run.organization_id,
    pipeline_id: run.pipeline_id,
    seq: run.seq,
    attempt: run.attempt,
    ...progress!,
  }))
  for (const supervised of moved) supervised.progress = null
  await saveProgress(db, rows)
}
