/**
 * Shutdown of a long-lived process. SIGTERM and SIGINT request it: work in progress gets `drainMs`, then it is handed
 * over. After an uncaught error the state of the process is unknown, so work is handed over almost at once. Either way
 * everything is closed within `closeMs` after that, or the process exits anyway.
 */
import type { LineLog } from '../log-lines.ts'

export interface End {
  /** Resolves when the shutdown begins. */
  begun: Promise<void>
  /** Aborted when work still in progress has to be handed over. */
  deadline: AbortSignal
  /** Whether an uncaught error is the reason, or occurred in addition. */
  crashed(): boolean
}

export interface EndOptions {
  drainMs: number
  closeMs: number
  /** Exits at once: the time is over, or a second signal came. */
  exitNow?: () => void
}

/** Requests in progress may have nothing to do with the error. */
const CRASH_DRAIN_MS = 1000
/** Ctrl+C reaches the whole process group, and npm forwards it once more: within this time both count as one. */
const SAME_SIGNAL_MS = 500

export function watchForEnd(log: LineLog, { drainMs, closeMs, exitNow = () => process.exit(1) }: EndOptions): End {
  const begun = Promise.withResolvers<void>()
  const deadline = new AbortController()
  let askedAt: number | undefined
  let crashed = false
  const endWithin = (ms: number) => {
    setTimeout(() => deadline.abort(), ms).unref()
    setTimeout(exitNow, ms + closeMs).unref()
    begun.resolve()
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (askedAt === undefined) {
        askedAt = performance.now()
        endWithin(drainMs)
      } else if (performance.now() - askedAt > SAME_SIGNAL_MS) exitNow()
    })
  }
  process.on('uncaughtException', (error, origin) => {
    const what = origin === 'unhandledRejection' ? 'a rejected promise was not handled' : 'an exception was not caught'
    log.fatal({ err: error }, `${what}; shutting down`)
    if (crashed) return
    crashed = true
    endWithin(CRASH_DRAIN_MS)
  })
  // If the log has no reader any more, that is no reason to exit.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => {})
  return { begun: begun.promise, deadline: deadline.signal, crashed: () => crashed }
}
