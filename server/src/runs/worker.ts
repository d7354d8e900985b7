/**
 * A worker: claims ready runs while it has free slots, supervises each, and renews their leases. It wakes on NOTIFY,
 * and polls occasionally in case a message was lost. It never touches the data.
 */
import { pickBlobSettings } from '../blobs/open.ts'
import { cellSettings } from '../cell/settings.ts'
import { createExecutorPool, type ExecutorPool } from '../executors/pool.ts'
import { isQueueEmpty, nextAvailableMs } from './claim.ts'
import { keepLeases } from './leases.ts'
import { recoverLostRuns } from './recover.ts'
import { openSlots, SHARED, type Share, type Slots } from './slots.ts'
import { logFailedRun } from './verdict.ts'
import { listenForRuns } from './wake-ups.ts'
import type { WorkerServices } from './worker-services.ts'

const PROGRESS_MS = 1000
const LOOK_AT_MOST_MS = 5000
/** For a worker that does not listen. */
const POLL_MS = 2000
const WARM_EXECUTORS = 1
/** How long a worker that takes only one run waits for it: another may have been faster. */
const ONE_RUN_WITHIN_MS = 10_000

export interface Worker {
  /** Lets running runs finish until the deadline, then hands them over. */
  stop(deadline: AbortSignal): Promise<void>
  /** Of a worker that takes only one run: resolves when that has ended, or when there was none. */
  done: Promise<void>
}

export async function startWorker(services: WorkerServices, share: Share = SHARED): Promise<Worker> {
  const { db, config, log, state } = services
  const pool = openPool(services)
  const slots = openSlots(services, pool, share)
  const leases = keepLeases(services, slots.attempts)
  const leaseMs = config.RUN_LEASE_SECONDS * 1000
  const lookMs = Math.min(LOOK_AT_MOST_MS, leaseMs / 3)
  let backOff: NodeJS.Timeout | undefined

  const look = async () => {
    await recoverLostRuns(db.control, config.RUN_LEASE_SECONDS, (run, error) => logFailedRun(log, run, error))
    const ms = await nextAvailableMs(db.control)
    // Last, so that an idle worker never needs more connections at once than the pool keeps open.
    slots.fill()
    clearTimeout(backOff)
    if (ms !== null && ms < lookMs) backOff = setTimeout(slots.fill, ms + 5)
  }
  const guard = (what: string, work: () => Promise<void>) =>
    skipWhileBusy(() =>
      work().then(
        () => void state.failing.delete(what),
        (error: Error) => {
          state.failing.add(what)
          log.warn({ err: error }, `${what} failed; trying again soon`)
        },
      ),
    )
  const lookNow = guard('looking for waiting and lost runs', look)
  const wakeUps = listenForRuns(services, slots.worker, {
    ready: () => {
      if (slots.free() <= 0) return false
      slots.fill()
      return true
    },
    cancelled: (runId) => slots.find(runId)?.stop('cancelled'),
    followed: (runId) => slots.find(runId)?.log.follow(),
    gap: lookNow,
  })
  // First, because only this can fail: without a database nothing may be left running that keeps the process alive.
  await wakeUps.keepSeat(!share.once).catch(async (error: Error) => {
    await pool.close()
    throw error
  })
  let fullBefore = false
  const keepSeat = guard('listening', async () => {
    if (share.once) return
    const full = slots.free() === 0
    await wakeUps.keepSeat(!(full && fullBefore))
    fullBefore = full
  })
  const poll = () => {
    if (!wakeUps.listening()) slots.fill()
  }
  const lookForCancelled = async () => {
    if (!wakeUps.listening()) await leases.look()
  }
  const timers = [
    setInterval(lookNow, lookMs),
    setInterval(keepSeat, lookMs),
    setInterval(poll, Math.min(POLL_MS, lookMs)),
    setInterval(guard('renewing leases', leases.renew), leaseMs / 4),
    setInterval(guard('writing progress', leases.writeProgress), PROGRESS_MS),
    setInterval(guard('looking for cancelled runs', lookForCancelled), PROGRESS_MS),
    setInterval(leases.stopExpiring, Math.min(1000, leaseMs / 10)),
  ]
  if (!wakeUps.listening()) lookNow()
  const isEmpty = () =>
    isQueueEmpty(db.control, share.podClass).catch((error: Error) => {
      log.warn({ err: error }, 'the depth of the queue cannot be read; waiting a while for a run')
      return false
    })
  const nothing = share.once ? whenNothingCame(slots, isEmpty) : null

  return {
    done: share.once ? Promise.race([slots.sawOneThrough, nothing!.promise]) : new Promise(() => {}),
    async stop(deadline) {
      nothing?.stop()
      await slots.drain(deadline)
      for (const timer of timers) clearInterval(timer)
      clearTimeout(backOff)
      await wakeUps.stop()
      await pool.close()
    },
  }
}

/**
 * At once if its class has no run at all, not even one whose worker was lost and whose lease has to expire. A claim on its way
 * when the time is over is seen through by `stop`.
 */
function whenNothingCame(slots: Slots, isEmpty: () => Promise<boolean>): { promise: Promise<void>; stop(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = () => {
    if (!slots.hasBegun()) resolve()
  }
  const timer = setTimeout(end, ONE_RUN_WITHIN_MS)
  void isEmpty().then((empty) => empty && end())
  return { promise, stop: () => clearTimeout(timer) }
}

/** A timer whose work takes longer than its interval does not start it twice. */
function skipWhileBusy(work: () => Promise<void>): () => void {
  let busy = false
  return () => {
    if (busy) return
    busy = true
    void work().finally(() => {
      busy = false
    })
  }
}

const openPool = ({ config, ownAddresses }: WorkerServices): ExecutorPool =>
  createExecutorPool({
    warm: Math.min(WARM_EXECUTORS, config.WORKER_CONCURRENCY),
    most: config.WORKER_CONCURRENCY,
    memoryMb: config.RUN_MEMORY_MB,
    settings: () => ({
      serves: 'runs',
      blobs: pickBlobSettings(config),
      egress: { allow: config.EGRESS_ALLOW, self: ownAddresses },
      cell: cellSettings(config),
      checkpointMs: config.RUN_CHECKPOINT_MS,
    }),
  })
