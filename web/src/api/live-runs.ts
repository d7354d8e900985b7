/**
 * Live runs without polling: events of the one stream per browser change what is cached, and pages draw that. If nothing is
 * heard for 20 s, not even a heartbeat, what the page shows is requested again every few seconds until events come back.
 *
 * Kept up to date are `run`, `runs` and `pipelines` (api/queries.ts). Queries of a page's own with `meta: { live: true }`
 * take part in the polling, and useRunEvents tells them of events.
 */
import { notifyManager } from '@tanstack/react-query'
import { useEffect, useRef, useSyncExternalStore } from 'react'
import { applyEvents } from './apply-run-events.ts'
import { queryClient } from './query-client.ts'
import { type StreamMessage, shareRunEvents } from './run-event-stream.ts'
import { isOver, type LiveRun, type RunEvent } from './run-events.ts'
import { getIdentity, subscribe as subscribeToSession } from './session.ts'

/** Twice the server's heartbeat. */
const SILENCE_MS = 20_000
const POLL_MS = 5_000
/** The server tells a new stream of runs that ended in the last 15 s; after a longer break lists are read again. */
const GAP_MS = 10_000
/** How long an ended run is remembered, for an answer that was under way when it ended. */
const REMEMBERED_MS = 60_000
const CACHED = new Set<unknown>(['run', 'runs', 'pipelines'])

interface Progress extends LiveRun {
  /** Records read per second, if it is known. */
  rate: number | null
  /** When the last event came, by this browser's clock. */
  at: number
}

const known = new Map<string, Progress>()
let heardAt = Date.now()
let polling = false
const watchers = new Set<() => void>()
const listeners = new Set<(events: RunEvent[]) => void>()

/** In the frame, once: follows the runs of whoever is signed in, until they sign out or change the organization. */
export function useLiveRuns(): void {
  const identity = useSyncExternalStore(subscribeToSession, getIdentity)
  useEffect(() => {
    if (identity === null) return
    heardAt = Date.now()
    const stop = shareRunEvents(identity, { onMessage: receive, known: toEvents })
    const unsubscribe = queryClient.getQueryCache().subscribe(({ type, query, ...event }) => {
      // An answer may be older than events that came while it was under way.
      const fetched = type === 'updated' && 'action' in event && event.action.type === 'success' && !event.action.manual
      if (fetched && CACHED.has(query.queryKey[0])) update(query.queryKey, query.state.data, toEvents())
    })
    const timer = setInterval(pollIfSilent, POLL_MS)
    return () => {
      stop()
      unsubscribe()
      clearInterval(timer)
      known.clear()
      polling = false
      announce()
    }
  }, [identity])
}

/** Called with every batch of events while the component is shown. */
export function useRunEvents(listener: (events: RunEvent[]) => void): void {
  const latest = useRef(listener)
  latest.current = listener
  useEffect(() => {
    const call = (events: RunEvent[]) => latest.current(events)
    listeners.add(call)
    return () => {
      listeners.delete(call)
    }
  }, [])
}

/** The progress of a run that has not ended, or ended within the last minute. */
export function useLiveRun(id: string): Progress | undefined {
  return useSyncExternalStore(watch, () => known.get(id))
}

/** Events do not arrive; the page asks every few seconds instead. */
export function useIsPolling(): boolean {
  return useSyncExternalStore(watch, () => polling)
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

function receive(message: StreamMessage): void {
  const missed = message.type === 'open' && Date.now() - heardAt > GAP_MS
  heardAt = Date.now()
  // A stream begins with all that has not ended: what was known before may have ended unheard.
  if (message.type === 'open') known.clear()
  if (missed) refetch()
  if (message.type === 'events') take(message.events)
  if (polling) {
    polling = false
    announce()
  }
}

function take(events: RunEvent[]): void {
  const finished = new Set<string>()
  for (const event of events) {
    if (event.type === 'deleted') known.delete(event.id)
    else {
      const before = known.get(event.run.id)
      if (isOver(event.run) && (before === undefined || !isOver(before))) finished.add(event.run.id)
      known.set(event.run.id, withRate(event.run, before))
    }
  }
  notifyManager.batch(() => {
    for (const query of queryClient.getQueryCache().getAll())
      if (CACHED.has(query.queryKey[0])) update(query.queryKey, query.state.data, events)
    // Output, quarantine and versions are not in events.
    for (const id of finished) void queryClient.invalidateQueries({ queryKey: ['run', id] })
  })
  for (const listener of listeners) listener(events)
  announce()
}

function update(key: readonly unknown[], data: unknown, events: RunEvent[]): void {
  const changed = applyEvents(key, data, key[0] === 'pipelines' ? events.filter(isLatest) : events)
  // The time of the answer stays: counters in events must not keep the rest of it from being read again.
  const updatedAt = queryClient.getQueryState(key)?.dataUpdatedAt ?? Date.now()
  if (changed !== data) queryClient.setQueryData(key, changed, { updatedAt })
}

/** A pipeline shows its newest run, although an older one may still be running. */
function isLatest(event: RunEvent): boolean {
  if (event.type === 'deleted') return false
  const { pipeline_id, created_at } = event.run
  return ![...known.values()].some((run) => run.pipeline_id === pipeline_id && run.created_at > created_at)
}

function withRate(run: LiveRun, before: Progress | undefined): Progress {
  const at = Date.now()
  if (before === undefined || before.attempt !== run.attempt || isOver(run)) return { ...run, rate: null, at }
  const seconds = (at - before.at) / 1000
  if (seconds < 0.2) return { ...run, rate: before.rate, at: before.at }
  const measured = Math.max(0, run.records_read - before.records_read) / seconds
  // Pages arrive in bursts: the mean of the last seconds is steadier.
  return { ...run, rate: before.rate === null ? measured : before.rate * 0.6 + measured * 0.4, at }
}

function toEvents(): RunEvent[] {
  return Array.from(known.values(), ({ rate: _, at: __, ...run }) => ({ type: 'run', run }))
}

function announce(): void {
  const oldest = Date.now() - REMEMBERED_MS
  for (const run of known.values()) if (isOver(run) && run.at < oldest) known.delete(run.id)
  for (const watcher of watchers) watcher()
}

function pollIfSilent(): void {
  if (Date.now() - heardAt < SILENCE_MS) return
  if (!polling) {
    polling = true
    known.clear()
    announce()
  }
  if (document.visibilityState === 'visible') refetch()
}

function refetch(): void {
  void queryClient.invalidateQueries({
    predicate: ({ queryKey, meta }) => CACHED.has(queryKey[0]) || meta?.live === true,
  })
}
