/**
 * One event stream per browser. HTTP/1.1 allows six connections to a host, so tabs share one: the tab that holds a Web Lock
 * reads the stream and passes every event on over a BroadcastChannel. When that tab closes, the lock goes to the next one.
 * Lock and channel are named after the person and the organization, so events never reach a tab that shows another.
 */
import { ApiError, authorized } from './client.ts'
import { readEvents } from './event-stream.ts'
import type { RunEvent } from './run-events.ts'

export type StreamMessage =
  /** A stream has begun; it first tells of all runs that have not ended. */
  { type: 'open' } | { type: 'alive' } | { type: 'events'; events: RunEvent[] }

interface Tab {
  onMessage(message: StreamMessage): void
  /** What this tab knows, for one that was opened after the stream began. */
  known(): RunEvent[]
}

/** The server sends a heartbeat every 10 s. */
const DEAD_MS = 25_000
const STEADY_MS = 5_000
const LONGEST_PAUSE_MS = 30_000
const BATCH_MS = 80

/** Until the returned function is called. */
export function shareRunEvents(identity: string, tab: Tab): () => void {
  const name = `sluice.runs.${identity}`
  const controller = new AbortController()
  const channel = new BroadcastChannel(name)
  let leads = false
  channel.onmessage = ({ data }: MessageEvent<StreamMessage | { type: 'hello' }>) => {
    if (data.type !== 'hello') {
      if (!leads) tab.onMessage(data)
    } else if (leads) channel.postMessage({ type: 'events', events: tab.known() })
  }
  const tell = (message: StreamMessage) => {
    if (controller.signal.aborted) return
    channel.postMessage(message)
    tab.onMessage(message)
  }
  const lead = async () => {
    leads = true
    await keepReading(tell, controller.signal)
  }
  // Web Locks exist only on https and localhost; elsewhere every tab has a stream of its own.
  if (navigator.locks) navigator.locks.request(name, { signal: controller.signal }, lead).catch(() => {})
  else void lead()
  channel.postMessage({ type: 'hello' })
  return () => {
    controller.abort()
    channel.close()
  }
}

async function keepReading(tell: (message: StreamMessage) => void, signal: AbortSignal): Promise<void> {
  let failures = 0
  while (!signal.aborted) {
    const began = Date.now()
    let atLeastMs = 0
    try {
      await readStream(tell, signal)
    } catch (error) {
      if (error instanceof ApiError) atLeastMs = (error.retryAfterSeconds ?? (error.status < 500 ? 30 : 0)) * 1000
    }
    // A stream also ends with its access token; that is no failure.
    failures = Date.now() - began > STEADY_MS ? 0 : failures + 1
    await pause(Math.max(atLeastMs, backOff(failures)), signal)
  }
}

/** Random, so that browsers do not come back all at once when a service restarts. */
function backOff(failures: number): number {
  const longest = Math.min(500 * 2 ** failures, LONGEST_PAUSE_MS)
  return longest / 2 + (Math.random() * longest) / 2
}

async function readStream(tell: (message: StreamMessage) => void, signal: AbortSignal): Promise<void> {
  const silence = new AbortController()
  let timer = 0
  const hear = () => {
    clearTimeout(timer)
    timer = window.setTimeout(() => silence.abort(), DEAD_MS)
  }
  const batch = createBatch((events) => tell({ type: 'events', events }))
  hear()
  try {
    const headers = { Accept: 'text/event-stream' }
    const any = AbortSignal.any([signal, silence.signal])
    const response = await authorized(new Request('/api/runs/events', { headers, signal: any }))
    if (!response.ok || response.body === null)
      throw new ApiError(response.status, 'The events of runs cannot be read', response.headers)
    tell({ type: 'open' })
    for await (const { event, data } of readEvents(response.body)) {
      hear()
      if (event === 'run') batch.add({ type: 'run', run: JSON.parse(data) })
      else if (event === 'deleted') batch.add({ type: 'deleted', ...JSON.parse(data) })
      else tell({ type: 'alive' })
    }
  } finally {
    clearTimeout(timer)
    batch.flush()
  }
}

/** Events come one by one, hundreds when a stream begins; pages are drawn again once for all of them. */
function createBatch(send: (events: RunEvent[]) => void) {
  let events: RunEvent[] = []
  let timer = 0
  const flush = () => {
    clearTimeout(timer)
    timer = 0
    if (events.length > 0) send(events)
    events = []
  }
  return {
    add(event: RunEvent) {
      events.push(event)
      timer ||= window.setTimeout(flush, BATCH_MS)
    },
    flush,
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
