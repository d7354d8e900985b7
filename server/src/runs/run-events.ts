/**
 * What happens to the runs of organizations, for those who watch. One query a second looks at the runs of all watched
 * organizations of this process together, however many watch them; messages between processes only make it look sooner. What
 * differs from the last look is an event. A watcher that reads slowly gets the latest state of each run, not every step.
 */
import { setImmediate } from 'node:timers/promises'
import { type Queryable, sql } from '../database/database.ts'
import { createWakeSignal } from '../wake-signal.ts'
import type { RunMessages } from './messages.ts'
import type { RunStatus } from './states.ts'

interface WatchedRun {
  id: string
  pipeline_id: string
  pipeline_name: string
  domain_id: string | null
  status: RunStatus
  triggered_by: string
  attempt: number
  records_read: number
  records_written: number
  bytes_written: number
  error: string | null
  created_at: string
  started_at: string | null
  finished_at: string | null
}

/** A run as it is now; or that it is gone, with its pipeline. */
type RunEvent = { type: 'run'; run: WatchedRun } | { type: 'deleted'; run: WatchedRun }

interface RunWatcher {
  /**
   * The events since the last call; waits for some, at most that long. The first are all runs that have not ended, and those that
   * ended in the last seconds: one of them may have ended since the watcher came, or while its connection was lost.
   */
  next(atMostMs: number): Promise<RunEvent[]>
  stop(): void
}

export interface RunEvents {
  watch(organizationId: string): RunWatcher
  close(): void
}

interface Watched {
  /** Runs as they were at the last look: those that have not ended, and for a while those that have. */
  runs: Map<string, WatchedRun>
  watchers: Set<Watcher>
}

interface Watcher {
  events: Map<string, RunEvent>
  wake(): void
}

const LOOK_MS = 1000
/** Messages make the next look come sooner, but no more often than this. */
const SPACING_MS = 250
/** Of one organization: pending, running, and those that ended last. */
const MOST_RUNS = 500
/** A transaction that ends a run may commit that much later than the time it writes. */
const LATE_SECONDS = 15

export function createRunEvents(db: Queryable, messages: RunMessages, onError: (error: Error) => void): RunEvents {
  const organizations = new Map<string, Watched>()
  const signal = createWakeSignal()
  let looking: Promise<void> | null = null
  let closed = false
  /** When the last look that succeeded began. */
  let lastLook = performance.now()

  const work = async (): Promise<void> => {
    const stopListening = messages.onChange(() => signal.wake())
    lastLook = performance.now()
    try {
      while (organizations.size > 0 && !closed) {
        const started = performance.now()
        const unseenSeconds = Math.ceil((started - lastLook) / 1000)
        await look(db, organizations, LATE_SECONDS + unseenSeconds).then(() => {
          lastLook = started
        }, onError)
        await pause(SPACING_MS - (performance.now() - started))
        await signal.wait(LOOK_MS - SPACING_MS)
      }
    } finally {
      stopListening()
      looking = null
    }
  }

  return {
    watch(organizationId) {
      const watched = organizations.get(organizationId) ?? { runs: new Map(), watchers: new Set() }
      organizations.set(organizationId, watched)
      const own = createWakeSignal()
      const watcher: Watcher = { events: new Map(), wake: own.wake }
      for (const run of watched.runs.values()) watcher.events.set(run.id, { type: 'run', run })
      watched.watchers.add(watcher)
      if (looking === null) looking = work()
      else signal.wake()
      return {
        async next(atMostMs) {
          if (watcher.events.size === 0) await own.wait(atMostMs)
          const events = [...watcher.events.values()]
          watcher.events.clear()
          return events
        },
        stop() {
          watched.watchers.delete(watcher)
          own.wake()
          if (watched.watchers.size === 0 && organizations.get(organizationId) === watched)
            organizations.delete(organizationId)
          if (organizations.size === 0) signal.wake()
        },
      }
    },
    close() {
      closed = true
      organizations.clear()
      signal.wake()
    },
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, Math.max(0, ms)).unref())

async function look(db: Queryable, organizations: Map<string, Watched>, endedSeconds: number): Promise<void> {
  // A watcher may come while the query runs: its organization is looked at next time.
  const looked = new Map(organizations)
  const rows = await readRuns(db, [...looked.keys()], endedSeconds)
  const now = new Map<string, Map<string, WatchedRun>>([...looked.keys()].map((id) => [id, new Map()]))
  for (const { organization_id, ...run } of rows) now.get(organization_id)?.set(run.id, run)
  for (const [id, watched] of looked) {
    publish(watched, now.get(id)!)
    // Requests are answered between two organizations.
    await setImmediate()
  }
}

function publish(watched: Watched, now: Map<string, WatchedRun>): void {
  const events: RunEvent[] = []
  for (const run of now.values()) {
    const known = watched.runs.get(run.id)
    if (known === undefined || differs(known, run)) events.push({ type: 'run', run })
  }
  for (const run of watched.runs.values())
    if (run.finished_at === null && !now.has(run.id) && now.size < MOST_RUNS) events.push({ type: 'deleted', run })
  watched.runs = now
  if (events.length === 0) return
  for (const { events: waiting, wake } of watched.watchers) {
    for (const event of events) waiting.set(event.run.id, event)
    wake()
  }
}

/** What can change while a run is watched. Field by field: serializing thousands of runs would hold up the API. */
const differs = (before: WatchedRun, after: WatchedRun): boolean =>
  before.status !== after.status ||
  before.attempt !== after.attempt ||
  before.records_read !== after.records_read ||
  before.records_written !== after.records_written ||
  before.bytes_written !== after.bytes_written ||
  before.error !== after.error ||
  before.pipeline_name !== after.pipeline_name ||
  before.domain_id !== after.domain_id ||
  String(before.started_at) !== String(after.started_at) ||
  String(before.finished_at) !== String(after.finished_at)

const columns = sql`r.organization_id, r.id, r.pipeline_id, r.status, r.triggered_by, r.attempt, r.records_read, r.records_written,
  r.bytes_written, r.error, r.created_at, r.started_at, r.finished_at, r.seq`

function readRuns(
  db: Queryable,
  organizations: string[],
  endedSeconds: number,
): Promise<(WatchedRun & { organization_id: string })[]> {
  return db.query(sql`
    SELECT r.organization_id, r.id, r.pipeline_id, p.name AS pipeline_name, p.domain_id, r.status, r.triggered_by, r.attempt, r.records_read,
           r.records_written, r.bytes_written, r.error, r.created_at, r.started_at, r.finished_at
      FROM (
        SELECT u.* FROM unnest(${organizations}::uuid[]) AS o (id) CROSS JOIN unnest(ARRAY['pending', 'running']) AS s (status)
         CROSS JOIN LATERAL (
           SELECT ${columns} FROM runs r WHERE r.organization_id = o.id AND r.status = s.status
            ORDER BY r.created_at DESC, r.seq DESC LIMIT ${MOST_RUNS}) u
        UNION ALL
        SELECT ${columns} FROM (
          SELECT r.*, row_number() OVER (PARTITION BY r.organization_id ORDER BY r.finished_at DESC, r.seq DESC) AS place
            FROM runs r
           WHERE r.finished_at > now() - make_interval(secs => ${endedSeconds}) AND r.organization_id = ANY(${organizations}::uuid[])
        ) r WHERE r.place <= ${MOST_RUNS}
      ) r JOIN pipelines p ON p.id = r.pipeline_id ORDER BY r.seq`)
}
