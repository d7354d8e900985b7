/**
 * The last and the next 24 hours of an organization's pipelines: a lane for each of those that matter most, the ones whose
 * last run failed first. The cost does not depend on how many pipelines and runs there are: lanes are chosen through indexes,
 * their runs are found by number, and runs that begin within the same ten minutes are one entry.
 */
import { setImmediate } from 'node:timers/promises'
import { type Queryable, raw, sql } from '../database/database.ts'
import { plannedEachTime } from '../database/lists.ts'
import { nextTimes } from '../pipelines/schedule.ts'
import type { Actor } from '../tenancy/actor.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'
import type { RunStatus } from './states.ts'

export interface Timeline {
  from: string
  now: string
  to: string
  pipelines: Lane[]
}

interface Lane {
  id: string
  name: string
  domain_id: string | null
  source_name: string | null
  stream: string
  destination_name: string | null
  saved_source_id: string | null
  saved_destination_id: string | null
  enabled: boolean
  last_run_id: string | null
  last_run_status: RunStatus | null
  last_run_at: string | null
  last_error: string | null
  failures: number
  runs: Bar[]
  next_times: string[]
  more_times: boolean
}

interface Bar {
  id: string
  status: RunStatus
  started_at: string
  finished_at: string | null
  runs: number
}

const HOURS = 24
/** A run may have begun before the time that is shown. */
const LONGEST_RUN_HOURS = 12
const BAR_SECONDS = 600
/** Of one lane: one a minute for all of the time above. */
const MOST_RUNS = 2200
/** Failures in a row are counted up to here. */
export const MOST_FAILURES = 100
/** Schedules that fire more often are cut. */
export const MOST_TIMES = 24

type LaneRow = Omit<Lane, 'runs' | 'next_times' | 'more_times'> & { schedule: string | null; timezone: string | null }

export async function readTimeline(database: Queryable, actor: Actor, pipelines: number): Promise<Timeline> {
  const db = plannedEachTime(database)
  const { now } = (await db.first<{ now: string }>(sql`SELECT now() AS now`))!
  const lanes = await chooseLanes(db, actor, pipelines)
  const bars = await readBars(db, actor, lanes)
  const until = Date.parse(now) + HOURS * 3_600_000
  const barsOf = Map.groupBy(bars, ({ pipeline_id }) => pipeline_id)
  const timesOf = openTimes(Date.parse(now))
  const drawn: Lane[] = []
  for (const { schedule, timezone, ...lane } of lanes) {
    const runs = (barsOf.get(lane.id) ?? []).map(({ pipeline_id: _, ...bar }) => bar)
    drawn.push({ ...lane, runs, ...(await timesOf(lane.enabled ? schedule : null, timezone)) })
  }
  return {
    from: toText(Date.parse(now) - HOURS * 3_600_000),
    now,
    to: toText(until),
    pipelines: drawn,
  }
}

const DOMAIN_ID = raw('p.domain_id')

/** Whose last run failed, newest first; then those that ran last; then those that run next. */
function chooseLanes(db: Queryable, actor: Actor, most: number): Promise<LaneRow[]> {
  const { organization_id } = actor
  const visible = inVisibleDomain(actor, DOMAIN_ID)
  const own = sql`a.organization_id = ${organization_id} AND p.organization_id = ${organization_id}${visible}`
  const activity = sql`pipeline_activity a JOIN pipelines p ON p.id = a.pipeline_id`
  return db.query(sql`
    WITH chosen AS (
      (SELECT a.pipeline_id AS id FROM ${activity}
        WHERE ${own} AND a.last_run_status = 'failed' AND p.enabled ORDER BY a.last_run_at DESC LIMIT ${most})
      UNION
      (SELECT a.pipeline_id FROM ${activity}
        WHERE ${own} AND a.last_run_at > now() - make_interval(hours => ${HOURS})
        ORDER BY a.last_run_at DESC NULLS LAST, a.pipeline_id LIMIT ${most})
      UNION
      (SELECT p.id FROM pipeline_due t JOIN pipelines p ON p.id = t.pipeline_id
        WHERE t.organization_id = ${organization_id}${visible} AND t.next_run_at < now() + make_interval(hours => ${HOURS})
        ORDER BY t.next_run_at, t.pipeline_id LIMIT ${most})
    ),
    lanes AS (
      SELECT p.id, p.name, p.domain_id, p.source_name, p.stream, p.destination_name, p.saved_source_id, p.saved_destination_id,
             p.enabled, p.schedule, p.timezone, p.next_run_at, a.last_run_status, a.last_run_at, a.last_run_seq,
             coalesce(a.last_run_status = 'failed' AND p.enabled, false) AS failed
        FROM chosen c JOIN pipelines p ON p.id = c.id JOIN pipeline_activity a ON a.pipeline_id = p.id
       ORDER BY failed DESC, a.last_run_at DESC NULLS LAST, p.next_run_at, p.id LIMIT ${most}
    )
    SELECT l.id, l.name, l.domain_id, l.source_name, l.stream, l.destination_name, l.saved_source_id, l.saved_destination_id,
           l.enabled, l.schedule, l.timezone, r.id AS last_run_id, l.last_run_status, l.last_run_at, r.error AS last_error,
           CASE WHEN l.last_run_status = 'failed' THEN (SELECT count(*)::int FROM (
             SELECT 1 FROM runs f
              WHERE f.pipeline_id = l.id AND f.status = 'failed' AND f.seq > coalesce(
                (SELECT s.seq FROM runs s WHERE s.pipeline_id = l.id AND s.status = 'success' ORDER BY s.seq DESC LIMIT 1), 0)
              LIMIT ${MOST_FAILURES}) f) ELSE 0 END AS failures
      FROM lanes l LEFT JOIN runs r ON r.seq = l.last_run_seq AND r.pipeline_id = l.id
     ORDER BY l.failed DESC, l.last_run_at DESC NULLS LAST, l.next_run_at, l.id`)
}

/** Shown of several runs: the one that matters most, the newest of these. */
const SEVERITY = raw(
  `CASE r.status WHEN 'failed' THEN 4 WHEN 'running' THEN 3 WHEN 'pending' THEN 2 WHEN 'cancelled' THEN 1 ELSE 0 END`,
)

function readBars(db: Queryable, actor: Actor, lanes: LaneRow[]): Promise<(Bar & { pipeline_id: string })[]> {
  if (lanes.length === 0) return Promise.resolve([])
  return db.query(sql`
    WITH first AS (
      SELECT r.seq FROM runs r
       WHERE r.organization_id = ${actor.organization_id} AND r.created_at > now() - make_interval(hours => ${HOURS + LONGEST_RUN_HOURS})
       ORDER BY r.created_at, r.seq LIMIT 1
    )
    SELECT l.id AS pipeline_id, b.id, b.status, b.started_at, b.finished_at, b.runs
      FROM unnest(${lanes.map(({ id }) => id)}::uuid[]) AS l (id)
     CROSS JOIN LATERAL (
       SELECT (array_agg(r.id ORDER BY ${SEVERITY} DESC, r.seq DESC))[1] AS id,
              (array_agg(r.status ORDER BY ${SEVERITY} DESC, r.seq DESC))[1] AS status,
              min(r.began) AS started_at,
              CASE WHEN bool_and(r.finished_at IS NOT NULL) THEN max(r.finished_at) END AS finished_at,
              count(*)::int AS runs
         FROM (
           SELECT r.id, r.seq, r.status, coalesce(r.started_at, r.created_at) AS began, r.finished_at
             FROM runs r WHERE r.pipeline_id = l.id AND r.seq >= (SELECT seq FROM first) ORDER BY r.seq DESC LIMIT ${MOST_RUNS}
         ) r
        WHERE coalesce(r.finished_at, now()) > now() - make_interval(hours => ${HOURS})
        GROUP BY floor(extract(epoch FROM r.began) / ${BAR_SECONDS})
     ) b ORDER BY l.id, b.started_at`)
}

type Times = Pick<Lane, 'next_times' | 'more_times'>

const MINUTE_MS = 60_000
const MOST_CACHED = 10_000
/** What fires next is the same for everyone during a minute, the smallest unit of a schedule. */
let cached = { minute: 0, times: new Map<string, number[]>() }

/** The next times of a schedule. A search of the calendar takes milliseconds, so others get their turn in between. */
function openTimes(now: number): (schedule: string | null, timezone: string | null) => Promise<Times> {
  const until = now + HOURS * 3_600_000
  const minute = Math.floor(now / MINUTE_MS)
  if (cached.minute !== minute) cached = { minute, times: new Map() }
  const { times } = cached
  return async (schedule, timezone) => {
    if (schedule === null) return { next_times: [], more_times: false }
    const key = `${schedule} ${timezone}`
    let found = times.get(key)
    if (found === undefined) {
      await setImmediate()
      const from = new Date(minute * MINUTE_MS)
      const end = Math.ceil((until + 1) / MINUTE_MS) * MINUTE_MS
      found = nextTimes(schedule, timezone, from, { count: MOST_TIMES + 1, until: end }).map((time) => time.getTime())
      if (times.size < MOST_CACHED) times.set(key, found)
    }
    const shown = found.filter((time) => time < until)
    return { next_times: shown.slice(0, MOST_TIMES).map(toText), more_times: shown.length > MOST_TIMES }
  }
}

const toText = (ms: number) => new Date(ms).toISOString().replace('Z', '000Z')
