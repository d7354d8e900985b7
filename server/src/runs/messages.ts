/** One LISTEN connection per process for messages about runs, shared by all followers. */
import { randomUUID } from 'node:crypto'
import { type Database, sql } from '../database/database.ts'
import { CHANNEL, type Message, notifyRun, readMessage } from '../database/notifications.ts'
import { createWakeSignal } from '../wake-signal.ts'

interface Follower {
  /** Resolves when there is a message about the run, at the latest after the given time. */
  next(atMostMs: number): Promise<void>
  stop(): void
}

export interface RunMessages {
  follow(runId: string): Follower
  /** Calls back when a run was triggered, ended or moved, perhaps one of another organization. Returns what stops it. */
  onChange(wake: () => void): () => void
  close(): Promise<void>
}

/** Messages that tell of a run in another state. */
const CHANGES: readonly Message[] = ['ready', 'state', 'cancel']
/** Workers announce new lines only while a reader renews its interest. */
const ANNOUNCE_EVERY_MS = 5000
/** And they say that runs have ended only while a process renews its entry in `watching_processes`. */
const WATCH_EVERY_MS = 10_000
const WATCH_SECONDS = 30

export function createRunMessages(db: Database, onError: (error: Error) => void): RunMessages {
  const followers = new Map<string, Set<() => void>>()
  const changes = new Set<() => void>()
  let listening: Promise<() => Promise<void>> | null = null
  const processName = randomUUID()
  let watching: NodeJS.Timeout | undefined
  const watch = () => {
    if (followers.size === 0 && changes.size === 0) {
      clearInterval(watching)
      watching = undefined
      return
    }
    db.control
      .execute(sql`
        WITH gone AS (DELETE FROM watching_processes WHERE until < now() - interval '1 minute')
        INSERT INTO watching_processes (process, until) VALUES (${processName}, now() + make_interval(secs => ${WATCH_SECONDS}))
        ON CONFLICT (process) DO UPDATE SET until = excluded.until`)
      .catch(onError)
  }
  const startWatching = () => {
    if (watching) return
    watching = setInterval(watch, WATCH_EVERY_MS).unref()
    watch()
  }
  const wakeAll = (wakes: Iterable<() => void> | undefined) => {
    for (const wake of wakes ?? []) wake()
  }
  const listen = () => {
    listening ??= db.listen(
      CHANNEL,
      (payload) => {
        const { message, run_id } = readMessage(payload)
        wakeAll(followers.get(run_id))
        if (CHANGES.includes(message)) wakeAll(changes)
      },
      () => {
        for (const wakes of followers.values()) wakeAll(wakes)
        wakeAll(changes)
      },
    )
    listening.catch((error: Error) => {
      listening = null
      onError(error)
    })
  }

  const announceReader = (runId: string) => void db.execute(notifyRun('follow', runId)).catch(onError)

  return {
    follow(runId) {
      listen()
      announceReader(runId)
      const announcing = setInterval(() => announceReader(runId), ANNOUNCE_EVERY_MS).unref()
      const signal = createWakeSignal()
      const wakes = followers.get(runId) ?? new Set()
      followers.set(runId, wakes.add(signal.wake))
      startWatching()
      return {
        next: signal.wait,
        stop() {
          clearInterval(announcing)
          wakes.delete(signal.wake)
          signal.wake()
          // May be called twice; by then another reader of the run may have a set of its own.
          if (wakes.size === 0 && followers.get(runId) === wakes) followers.delete(runId)
        },
      }
    },
    onChange(wake) {
      listen()
      changes.add(wake)
      startWatching()
      return () => changes.delete(wake)
    },
    async close() {
      clearInterval(watching)
      for (const wakes of followers.values()) wakeAll(wakes)
      const stop = await listening?.catch(() => null)
      await stop?.()
    },
  }
}
