/**
 * Metrics for Prometheus at /metrics. Nothing identifies a tenant. Only loaded if METRICS_TOKEN is set.
 *
 * Runs end in workers, which may be other processes, so each scrape queries the database, in one statement that only
 * reads what is waiting, what is running, and what ended since the last scrape.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { type Database, sql } from './database/database.ts'

export interface Metrics {
  observeRequest(request: { method: string; route: string; status: number; seconds: number }): void
  /** In the text format of Prometheus. */
  render(): Promise<{ content_type: string; text: string }>
}

const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const ANSWER_WITHIN_MS = 2000
/**
 * A run's end carries the start time of its transaction, so runs are counted only once that has certainly been
 * committed.
 */
const COUNTED_AFTER = sql`interval '5 seconds'`

interface Snapshot {
  until: string
  ended: Partial<Record<'success' | 'failed' | 'cancelled', number>>
  pending: number
  running: number
  ready: number
  oldest_ready_seconds: number
  /** By class, of runs that wait for a worker of their own. */
  oldest_of_class: Record<string, number>
  deliveries: number
}

export async function createMetrics({ db }: { db: Database }): Promise<Metrics> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const own = createOwnMetrics(registry)
  const statuses = ['success', 'failed', 'cancelled'] as const
  for (const status of statuses) own.finished.inc({ status }, 0)
  let since = (await db.first<{ since: string }>(sql`SELECT now() - ${COUNTED_AFTER} AS since`))!.since
  let collecting: Promise<void> | null = null

  const collect = async () => {
    const snapshot = await within(ANSWER_WITHIN_MS, readSnapshot(db, since))
    own.databaseUp.set(snapshot ? 1 : 0)
    if (!snapshot) {
      // Stale figures would look current.
      for (const gauge of [own.runs, own.ready, own.oldest, own.oldestOfClass, own.deliveries]) gauge.reset()
      return
    }
    since = snapshot.until
    for (const status of statuses) own.finished.inc({ status }, snapshot.ended[status] ?? 0)
    own.runs.set({ status: 'pending' }, snapshot.pending)
    own.runs.set({ status: 'running' }, snapshot.running)
    own.ready.set(snapshot.ready)
    own.oldest.set(snapshot.oldest_ready_seconds)
    own.oldestOfClass.reset()
    for (const [name, seconds] of Object.entries(snapshot.oldest_of_class))
      own.oldestOfClass.set({ class: name }, seconds)
    own.deliveries.set(snapshot.deliveries)
  }

  return {
    observeRequest({ method, route, status, seconds }) {
      own.requests.observe({ method, route, status: String(status) }, seconds)
    },
    async render() {
      // Two concurrent scrapes must not count the same runs twice.
      collecting ??= collect().finally(() => {
        collecting = null
      })
      await collecting
      const { total, idle, waiting } = db.usage()
      own.connections.set({ state: 'in_use' }, total - idle)
      own.connections.set({ state: 'idle' }, idle)
      own.connections.set({ state: 'waited_for' }, waiting)
      return { content_type: registry.contentType, text: await registry.metrics() }
    },
  }
}

function createOwnMetrics(registry: Registry) {
  const registers = [registry]
  return {
    runs: new Gauge({
      name: 'sluice_runs',
      help: 'Unfinished runs by status.',
      labelNames: ['status'],
      registers,
    }),
    finished: new Counter({
      name: 'sluice_runs_finished_total',
      help: 'Runs of the whole platform that ended since this process started, by status; take the maximum over processes, not the sum.',
      labelNames: ['status'],
      registers,
    }),
    ready: new Gauge({ name: 'sluice_queue_depth', help: 'Runs that a worker could take now.', registers }),
    oldest: new Gauge({
      name: 'sluice_queue_oldest_seconds',
      help: 'Age of the oldest run that a worker could take now.',
      registers,
    }),
    oldestOfClass: new Gauge({
      name: 'sluice_pod_queue_oldest_seconds',
      help: 'Age of the oldest run that waits for a worker of this class (run.isolation pod).',
      labelNames: ['class'],
      registers,
    }),
    deliveries: new Gauge({
      name: 'sluice_webhook_deliveries_pending',
      help: 'Pending webhook deliveries.',
      registers,
    }),
    databaseUp: new Gauge({
      name: 'sluice_database_up',
      help: '1 if the database answered this scrape.',
      registers,
    }),
    connections: new Gauge({
      name: 'sluice_database_connections',
      help: 'Connections of this process to the database, and requests that wait for one.',
      labelNames: ['state'],
      registers,
    }),
    requests: new Histogram({
      name: 'sluice_http_request_duration_seconds',
      help: 'Time to answer a request, by route and status.',
      labelNames: ['method', 'route', 'status'],
      buckets: DURATION_BUCKETS,
      registers,
    }),
  }
}

const readSnapshot = (db: Database, since: string): Promise<Snapshot | null> =>
  db.first<Snapshot>(sql`
    SELECT now() - ${COUNTED_AFTER} AS until,
           (SELECT coalesce(jsonb_object_agg(e.status, e.count), '{}')
              FROM (SELECT status, count(*) FROM runs WHERE finished_at > ${since} AND finished_at <= now() - ${COUNTED_AFTER} GROUP BY status) e) AS ended,
           q.pending + (SELECT count(*) FROM runs WHERE status = 'pending' AND NOT ready) AS pending,
           (SELECT count(*) FROM runs WHERE status = 'running') AS running,
           q.ready, q.oldest_ready_seconds,
           (SELECT coalesce(jsonb_object_agg(c.pod_class, c.seconds), '{}')
              FROM (SELECT pod_class, extract(epoch FROM now() - min(greatest(created_at, available_at)))::float8 AS seconds
                      FROM runs WHERE pod_class > '' AND status = 'pending' AND ready AND available_at <= now() GROUP BY 1) c) AS oldest_of_class,
           (SELECT count(*) FROM webhook_deliveries WHERE status = 'pending') AS deliveries
      FROM (SELECT count(*) AS pending, count(*) FILTER (WHERE available_at <= now()) AS ready,
                   coalesce(extract(epoch FROM now() - min(greatest(created_at, available_at)) FILTER (WHERE available_at <= now())), 0)::float8 AS oldest_ready_seconds
              FROM runs WHERE status = 'pending' AND ready) q`)

/** Null if there was no answer in time, or an error. */
async function within<T>(ms: number, work: Promise<T | null>): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, ms, null)
  })
  try {
    return await Promise.race([work.catch(() => null), late])
  } finally {
    clearTimeout(timer)
  }
}
