/**
 * Runs and records per day of the caller's time zone. A day that is over, and whose runs have all ended, changes only if
 * pipelines are deleted: such days are remembered for some minutes, so that a busy organization is counted once. The others
 * are remembered for a moment, and an organization is counted by one caller at a time: the rest wait and find the answer.
 */
import { type Queryable, raw, sql } from '../database/database.ts'
import { plannedEachTime } from '../database/lists.ts'
import { checkTimezone } from '../pipelines/schedule.ts'
import type { Actor } from '../tenancy/actor.ts'
import { ofVisiblePipeline, visibleDomain } from '../tenancy/visibility.ts'

export interface RunDay {
  day: string
  runs: number
  succeeded: number
  failed: number
  cancelled: number
  records: number
  bytes: number
}

const REMEMBERED_MS = 10 * 60_000
/** Many pages that are open in an organization ask again when a run ends. */
const UNSETTLED_MS = 2000
const MOST_REMEMBERED = 20_000
const remembered = new Map<string, { day: RunDay; until: number }>()

const PIPELINE_ID = raw('r.pipeline_id')

/** The last days, today last. */
export async function readRunDays(
  database: Queryable,
  actor: Actor,
  { days, timezone }: { days: number; timezone: string },
): Promise<RunDay[]> {
  checkTimezone(timezone)
  const db = plannedEachTime(database)
  return inTurn(actor.organization_id, () => readDays(db, actor, days, timezone))
}

const turns = new Map<string, Promise<unknown>>()

async function inTurn<T>(organization_id: string, act: () => Promise<T>): Promise<T> {
  const before = turns.get(organization_id)
  const mine = before ? before.then(act, act) : act()
  turns.set(organization_id, mine)
  try {
    return await mine
  } finally {
    if (turns.get(organization_id) === mine) turns.delete(organization_id)
  }
}

async function readDays(db: Queryable, actor: Actor, days: number, timezone: string): Promise<RunDay[]> {
  const wanted = await listDays(db, days, timezone)
  const zone = nameOf(timezone)
  const keyOf = (day: string) => `${actor.organization_id} ${visibleDomain(actor)} ${zone} ${day}`
  const known = new Map(wanted.map((day) => [day, recall(keyOf(day))]))
  const missing = wanted.filter((day) => known.get(day) === undefined)
  const counted = missing.length === 0 ? [] : await countDays(db, actor, missing, timezone)
  for (const { settled, ...day } of counted) {
    known.set(day.day, day)
    remember(keyOf(day.day), day, settled ? REMEMBERED_MS : UNSETTLED_MS)
  }
  return wanted.map((day) => known.get(day)!)
}

/** However it is written: `europe/berlin` is Europe/Berlin. */
const nameOf = (timezone: string): string =>
  new Intl.DateTimeFormat('en', { timeZone: timezone }).resolvedOptions().timeZone

async function listDays(db: Queryable, days: number, timezone: string): Promise<string[]> {
  const rows = await db.query<{ day: string }>(sql`
    SELECT to_char((now() AT TIME ZONE ${timezone})::date - n, 'YYYY-MM-DD') AS day FROM generate_series(${days}::int - 1, 0, -1) AS n`)
  return rows.map(({ day }) => day)
}

const countDays = (
  db: Queryable,
  actor: Actor,
  days: string[],
  timezone: string,
): Promise<(RunDay & { settled: boolean })[]> =>
  db.query(sql`
    SELECT d.day, c.*, (d.day::date + 1)::timestamp AT TIME ZONE ${timezone} < now() AND NOT c.unfinished AS settled
      FROM unnest(${days}::text[]) AS d (day)
     CROSS JOIN LATERAL (
       SELECT count(*)::int AS runs, count(*) FILTER (WHERE r.status = 'success')::int AS succeeded,
              count(*) FILTER (WHERE r.status = 'failed')::int AS failed,
              count(*) FILTER (WHERE r.status = 'cancelled')::int AS cancelled,
              coalesce(sum(r.records_written), 0)::bigint AS records, coalesce(sum(r.bytes_written), 0)::bigint AS bytes,
              coalesce(bool_or(r.finished_at IS NULL), false) AS unfinished
         FROM runs r
        WHERE r.organization_id = ${actor.organization_id} AND r.created_at >= d.day::timestamp AT TIME ZONE ${timezone}
          AND r.created_at < (d.day::date + 1)::timestamp AT TIME ZONE ${timezone}${ofVisiblePipeline(actor, PIPELINE_ID)}
     ) c`)

function recall(key: string): RunDay | undefined {
  const found = remembered.get(key)
  if (found === undefined || found.until > performance.now()) return found?.day
  remembered.delete(key)
  return undefined
}

function remember(key: string, day: RunDay, ms: number): void {
  if (remembered.size >= MOST_REMEMBERED) remembered.delete(remembered.keys().next().value!)
  remembered.set(key, { day, until: performance.now() + ms })
}
