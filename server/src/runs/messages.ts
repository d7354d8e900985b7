/** One listener per process for what is told about runs, shared by everybody who follows one. */
import type { Database } from '../database/database.ts'
import { CHANNEL, notifyRun, readMessage } from '../database/notifications.ts'

interface Follower {
  /** Resolves when something was told about the run, at the latest after the given time. */
  next(atMostMs: number): Promise<void>
  stop(): void
}

export interface RunMessages {
  follow(runId: string): Follower
  close(): Promise<void>
}

/** Workers tell of new lines only while somebody says that they are read. */
const SAY_EVERY_MS = 5000

export function createRunMessages(db: Database, onError: (error: Error) => void): RunMessages {
  const followers = new Map<string, Set<() => void>>()
  let listening: Promise<() => Promise<void>> | null = null
  const tellAll = (wakes: Iterable<() => void> | undefined) => {
    for (const wake of wakes ?? []) wake()
  }
  const listen = () => {
    listening ??= db.listen(
      CHANNEL,
      (payload) => tellAll(followers.get(readMessage(payload).run_id)),
      () => {
        for (const wakes of followers.values()) tellAll(wakes)
      },
    )
    listening.catch((error: Error) => {
      listening = null
      onError(error)
    })
  }

  const sayThatReads = (runId: string) => void db.execute(notifyRun('follow', runId)).catch(onError)

  return {
    follow(runId) {
      listen()
      sayThatReads(runId)
      const saying = setInterval(() => sayThatReads(runId), SAY_EVERY_MS).unref()
      let told = false
      let wakeUp = () => {}
      const wake = () => {
        told = true
        wakeUp()
      }
      const wakes = followers.get(runId) ?? new Set()
      followers.set(runId, wakes.add(wake))
      return {
        async next(atMostMs) {
          if (!told)
            await new Promise<void>((resolve) => {
              const timer = setTimeout(resolve, atMostMs)
              wakeUp = () => {
                clearTimeout(timer)
                resolve()
              }
            })
          told = false
        },
        stop() {
          clearInterval(saying)
          wakes.delete(wake)
          wakeUp()
          if (wakes.size === 0) followers.delete(runId)
        },
      }
    },
    async close() {
      for (const wakes of followers.values()) tellAll(wakes)
      const stop = await listening?.catch(() => null)
      await stop?.()
    },
  }
}
