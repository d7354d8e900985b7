/**
 * The scheduler role: starts due pipelines, finds lost runs, delivers webhooks, cleans up. Any number may run in
 * parallel.
 */
import { readySkippedRuns, recoverLostRuns } from '../runs/recover.ts'
import { logFailedRun } from '../runs/verdict.ts'
import type { Services } from '../services.ts'
import { startWebhookDeliveries } from '../webhooks/deliveries.ts'
import { scheduleDuePipelines } from './tick.ts'
import { tidyHourly, tidyOften } from './tidy.ts'

const TICK_MS = 500
const TIDY_MS = 10_000
const HOUR_MS = 3600 * 1000

export interface Scheduler {
  stop(deadline: AbortSignal): Promise<void>
}

export async function startScheduler(services: Services): Promise<Scheduler> {
  const { db, box, log, config, state } = services
  const deliveries = await startWebhookDeliveries(services)
  const loops = [
    every(TICK_MS, async () => {
      await scheduleDuePipelines(db.control, box, log)
      state.tickedAt = Date.now()
    }),
    every(TIDY_MS, async () => {
      await recoverLostRuns(db.control, config.RUN_LEASE_SECONDS, (run, error) => logFailedRun(log, run, error))
      await readySkippedRuns(db.control)
      await tidyOften(services)
    }),
    every(HOUR_MS, () => tidyHourly(services)),
  ]

  function every(ms: number, work: () => Promise<void>): { stop(): Promise<void> } {
    let stopped = false
    let timer: NodeJS.Timeout | undefined
    let running: Promise<void> = Promise.resolve()
    const turn = () => {
      running = work()
        .catch((error: Error) => log.warn({ err: error }, 'the scheduler failed; trying again soon'))
        .then(() => {
          if (!stopped) timer = setTimeout(turn, ms)
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
