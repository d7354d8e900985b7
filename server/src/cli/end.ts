/**
 * The end of a long-lived process. SIGTERM and SIGINT ask for it: what is under way gets `drainMs`, then it is handed
 * over. An error that nobody caught leaves the process in a state that nobody knows, so the work is handed over almost at
 * once. Either way everything is closed within `closeMs` after that, or the process ends as it is.
 */
import type { LineLog } from '../log-lines.ts'

export interface End {
  /** Resolves when the end begins. */
  begun: Promise<void>
  /** Aborted when work that is still under way has to be handed over. */
  deadline: AbortSignal
  /** Whether an error that nobody caught is the reason, or came on top. */
  crashed(): boolean
}

export interface EndOptions {
  drainMs: number
  closeMs: number
  /** Ends the process as it is: the time is over, or somebody asked twice. */
  exitNow?: () => void
}

/** Requests under way may have nothing to do with the error. */
const CRASH_DRAIN_MS = 1000
/** Ctrl+C reaches the whole process group, and npm hands it on once more: within this time both are the same wish. */
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
    log.fatal({ err: error }, `${what}; ending this process`)
    if (crashed) return
    crashed = true
    endWithin(CRASH_DRAIN_MS)
  })
  // Nobody reads the log any more: no reason to end.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => {})
  return { begun: begun.promise, deadline: deadline.signal, crashed: () => crashed }
}
