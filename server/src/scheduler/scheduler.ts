/**
 * The scheduler role: starts due pipelines, finds lost runs, sends webhooks and alerts, cleans up. Any number may run in
 * parallel.
 */
import { findLatePipelines } from '../alerts/late.ts'
import { readySkippedRuns, recoverLostRuns } from '../runs/recover.ts'
import { logFailedRun } from '../runs/verdict.ts'
import { failRunsOfWithdrawnClasses } from '../runs/withdrawn-classes.ts'
import type { Services } from '../services.ts'
import { startWebhookDeliveries } from '../webhooks/deliveries.ts'
import { cleanUpHourly, cleanUpOften } from './cleanup.ts'
import { scheduleDuePipelines } from './due-pipelines.ts'
import { nextDueMs } from './next-due.ts'

/** How soon to look again after pipelines were due: others may have been locked at that moment. */
const DUE_AGAIN_MS = 500
/** How soon to look at the latest, if a due time was changed by other means than the API. */
const LOOK_MS = 2000
/** A timer may fire a moment early. */
const TIMER_MS = 2
const CLEANUP_MS = 10_000
const LATE_MS = 10_000
const HOUR_MS = 3600 * 1000

export interface Scheduler {
  stop(deadline: AbortSignal): Promise<void>
}

export async function startScheduler(services: Services): Promise<Scheduler> {
  const { db, box, log, config, state } = services
  const deliveries = await startWebhookDeliveries(services)
  const loops = [
    repeat(DUE_AGAIN_MS, async () => {
      const ms = await nextDueMs(db.control)
      if (ms <= 0) await scheduleDuePipelines(db.control, box, log, config.POD_CLASSES)
      state.tickedAt = Date.now()
      return ms <= 0 ? DUE_AGAIN_MS : Math.min(ms + TIMER_MS, LOOK_MS)
    }),
    every(CLEANUP_MS, async () => {
      await recoverLostRuns(db.control, config.RUN_LEASE_SECONDS, (run, error) => logFailedRun(log, run, error))
      await failRunsOfWithdrawnClasses(db.control, config.POD_CLASSES, (run, error) => logFailedRun(log, run, error))
      await readySkippedRuns(db.control)
      await cleanUpOften(services)
    }),
    every(LATE_MS, () => findLatePipelines(db)),
    every(HOUR_MS, () => cleanUpHourly(services)),
  ]

  function every(ms: number, work: () => Promise<unknown>): { stop(): Promise<void> } {
    return repeat(ms, async () => {
      await work()
      return ms
    })
  }

  /** Again after the time that `work` returns, and after `ms` if it failed. */
  function repeat(ms: number, work: () => Promise<number>): { stop(): Promise<void> } {
    let stopped = false
    let timer: NodeJS.Timeout | undefined
    let running: Promise<void> = Promise.resolve()
    const turn = () => {
      running = work()
        .catch((error: Error) => {
          log.warn({ err: error }, 'the scheduler failed; trying again soon')
          return ms
        })
        .then((again) => {
          if (!stopped) timer = setTimeout(turn, again)
        })
    }
    timer = setTimeout(turn, Math.min(ms, 1000))
    return {
      async stop() {
        stopped = true
        clearTimeout(timer)
        await running
      },
    }
  }

  return {
    async stop(deadline) {
      await Promise.all([deliveries.stop(deadline), ...loops.map((loop) => loop.stop())])
    },
  }
}
