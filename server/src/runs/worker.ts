/**
 * A worker: claims ready runs while it has free slots, supervises each, and keeps their leases. It wakes on NOTIFY, and
 * looks by itself now and then for what a lost message did not tell. It never touches the data.
 */
import { cellSettings } from '../cell/settings.ts'
import { CHANNEL, readMessage } from '../database/notifications.ts'
import { createExecutorPool, type ExecutorPool } from '../executors/pool.ts'
import { claimRuns, nextAvailableMs } from './claim.ts'
import { keepLeases } from './leases.ts'
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
  const { db, config, log, state } = services
  const pool = openPool(services)
  const slots = openSlots(services, pool)
  const leases = keepLeases(services, slots.attempts)
  const leaseMs = config.RUN_LEASE_SECONDS * 1000
  const lookMs = Math.min(LOOK_AT_MOST_MS, leaseMs / 3)
  let backOff: NodeJS.Timeout | undefined

  const look = async () => {
    await recoverLostRuns(db)
    state.queue = 'ok'
    slots.fill()
    const ms = await nextAvailableMs(db)
    clearTimeout(backOff)
    if (ms !== null && ms < lookMs) backOff = setTimeout(slots.fill, ms + 5)
  }
  const guard = (what: string, work: () => Promise<void>) => () =>
    void work().catch((error: Error) => {
      state.queue = `${what} fails`
      log.warn({ err: error }, `${what} failed; trying again soon`)
    })
  const lookNow = guard('looking for waiting and lost runs', look)
  const hear = (payload: string) => {
    const { message, run_id } = readMessage(payload)
    if (message === 'ready') slots.fill()
    if (message === 'cancel') slots.find(run_id)?.stop('cancelled')
  }
  // First of all, because this alone can fail: without a database nothing may be left behind that keeps us alive. What
  // was sent while nobody listened is found by looking.
  const stopListening = await db.listen(CHANNEL, hear, lookNow).catch(async (error: Error) => {
    await pool.close()
    throw error
  })
  const timers = [
    setInterval(lookNow, lookMs),
    setInterval(guard('renewing leases', leases.renew), leaseMs / 4),
    setInterval(guard('writing progress', leases.writeProgress), PROGRESS_MS),
    setInterval(leases.giveUpInTime, Math.min(1000, leaseMs / 10)),
  ]

  return {
    async stop(deadline) {
      await slots.drain(deadline)
      for (const timer of timers) clearInterval(timer)
      clearTimeout(backOff)
      await stopListening()
      await pool.close()
    },
  }
}

const openPool = ({ config, ownAddresses }: WorkerServices): ExecutorPool =>
  createExecutorPool({
    warm: Math.min(WARM_EXECUTORS, config.WORKER_CONCURRENCY),
    most: config.WORKER_CONCURRENCY,
    memoryMb: config.RUN_MEMORY_MB,
    settings: () => ({
      blobs: config,
      egress: { allow: config.EGRESS_ALLOW, self: ownAddresses },
      cell: cellSettings(config),
      checkpointMs: config.RUN_CHECKPOINT_MS,
    }),
  })

/** The slots of a worker and what runs in them. */
function openSlots(services: WorkerServices, pool: ExecutorPool) {
  const { db, config, log } = services
  const held = new Map<string, Supervised>()
  let stopping = false

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
          fill()
        })
      }
      if (runs.length === 0) break
    }
  })
  /** Claims for the slots that are free. */
  const fill = () => {
    claim().catch((error: Error) => log.warn({ err: error }, 'claiming runs failed; trying again soon'))
  }
  return {
    fill,
    attempts: () => [...held.values()].map(({ attempt }) => attempt),
    find: (runId: string) => held.get(runId)?.attempt,
    /** Takes nothing new, and hands over at the deadline what has not ended. */
    async drain(deadline: AbortSignal) {
      stopping = true
      // A claim under way may still bring runs; they are handed over or finished like the others.
      await claim().catch(() => {})
      const handOverAll = () => {
        for (const { attempt } of held.values()) attempt.stop('handed over')
      }
      if (deadline.aborted) handOverAll()
      else deadline.addEventListener('abort', handOverAll)
      await Promise.all([...held.values()].map(({ done }) => done))
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
