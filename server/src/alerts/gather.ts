/**
 * Storms: when a database goes down, ten thousand pipelines fail at once, and nobody reads ten thousand messages. Of each rule
 * and event there are a few messages a minute at most, and each takes with it all that waits: the first failure is told
 * alone and at once, what follows is told together.
 *
 * What is told together becomes a delivery of its own, which is queued, tried and listed like any other. The deliveries that it
 * tells are finished in the transaction that queues it and name it (`told_with`), so that each is told by one message, whenever
 * a sender dies.
 */
import { randomUUID } from 'node:crypto'
import { type Queryable, type Statement, sql, type Transactions } from '../database/database.ts'
import { lockMessages } from './lock-messages.ts'
import type { AlertPayload } from './message.ts'
import { findReasonToWait, type SentAlert, type Unsent } from './waiting.ts'

export const MESSAGES_PER_WINDOW = 3
export const WINDOW_SECONDS = 60
/** How many are named in a message. */
export const NAMED = 10
/** Of the error of a run, and of the changes of columns. */
const LONGEST_REASON = 1000
const MOST_CHANGES = 3
/** For a sender that is about to decide about the beginning of what this is the end of. */
const SOON_MS = 1000

interface Rule {
  domain_id: string | null
}

/** Neither sent nor part of a message; another sender may be about to decide. */
const untold = sql`status = 'pending' AND told_at IS NULL`

/** The beginnings of what recoveries end, as long as nobody is told of them. */
const untoldBeginnings = (alertId: string): Statement => sql`
  SELECT incident_id, attempts, next_attempt_at FROM webhook_deliveries WHERE alert_id = ${alertId} AND event <> 'recovered' AND ${untold}`

/**
 * Decides how an alert is told for the first time. True: it is a message of its own, now. Null: another message tells it, or
 * another sender has it.
 */
export const gatherAlerts = (db: Transactions, alert: SentAlert): Promise<true | Unsent | null> =>
  db.transaction(async (tx) => {
    const { id, attempts, alert_id, incident_id, payload } = alert
    await lockMessages(tx, alert_id)
    const rule = await tx.first<Rule>(sql`SELECT domain_id FROM alerts WHERE id = ${alert_id} FOR KEY SHARE`)
    if (!rule) return null
    const isOurs = await tx.first(
      sql`SELECT 1 FROM webhook_deliveries WHERE id = ${id} AND attempts = ${attempts} AND ${untold} FOR UPDATE`,
    )
    if (!isOurs) return null
    if (payload.event === 'recovered') {
      const beginning = await tx.first<{ ms: number | null }>(sql`
        SELECT CASE WHEN b.attempts = 0 THEN extract(epoch FROM b.next_attempt_at - now()) * 1000 END::float8 AS ms
          FROM (${untoldBeginnings(alert_id)}) b WHERE b.incident_id = ${incident_id}`)
      if (beginning) {
        const hold = { held_ms: Math.max(beginning.ms ?? 0, SOON_MS), error: null }
        return holdWithOthers(
          tx,
          alert,
          hold,
          sql` AND incident_id IN (SELECT incident_id FROM (${untoldBeginnings(alert_id)}) b)`,
        )
      }
    }
    const waitMs = await untilNextMessage(tx, alert)
    if (waitMs !== null) return holdWithOthers(tx, alert, { held_ms: waitMs, error: null })
    const others = await lockOthers(tx, alert)
    if (others.length > 0) {
      await queueTogether(tx, alert, rule, [id, ...others])
      return null
    }
    await tx.execute(sql`UPDATE webhook_deliveries SET told_at = now() WHERE id = ${id}`)
    return true
  })

/** Null if a message may be sent now. */
async function untilNextMessage(tx: Queryable, { alert_id, payload }: SentAlert): Promise<number | null> {
  const recent = await tx.query<{ ms: number }>(sql`
    SELECT (extract(epoch FROM told_at + make_interval(secs => ${WINDOW_SECONDS}) - now()) * 1000)::float8 AS ms FROM webhook_deliveries
     WHERE alert_id = ${alert_id} AND event = ${payload.event} AND told_at > now() - make_interval(secs => ${WINDOW_SECONDS})
     ORDER BY told_at DESC LIMIT ${MESSAGES_PER_WINDOW}`)
  return recent.length < MESSAGES_PER_WINDOW ? null : recent.at(-1)!.ms
}

/** All that is due of the same rule and event waits with it, or each would be claimed only to be told to wait. */
export async function holdWithOthers(
  tx: Queryable,
  { id, alert_id, payload }: SentAlert,
  hold: { held_ms: number; error: string | null },
  only = sql``,
): Promise<Unsent> {
  await tx.execute(sql`
    UPDATE webhook_deliveries SET next_attempt_at = now() + make_interval(secs => ${hold.held_ms / 1000}), error = ${hold.error}
     WHERE id IN (SELECT id FROM webhook_deliveries WHERE alert_id = ${alert_id} AND event = ${payload.event} AND id <> ${id} AND ${untold}
                     AND attempts = 0 AND next_attempt_at <= now()${only} FOR UPDATE SKIP LOCKED)`)
  return hold
}

/** All of the same rule and event that would be sent now. */
async function lockOthers(tx: Queryable, alert: SentAlert): Promise<string[]> {
  const { id, alert_id, payload, quiet_hours, now } = alert
  const others = await tx.query<Pick<SentAlert, 'id' | 'incident_id' | 'opened_at' | 'closed_at'>>(sql`
    SELECT d.id, d.incident_id, i.opened_at, i.closed_at
      FROM webhook_deliveries d LEFT JOIN alert_incidents i ON i.id = d.incident_id
     WHERE d.alert_id = ${alert_id} AND d.event = ${payload.event} AND d.id <> ${id} AND ${untold}
       AND (d.event <> 'recovered' OR NOT EXISTS (SELECT 1 FROM (${untoldBeginnings(alert_id)}) b WHERE b.incident_id = d.incident_id))
       FOR UPDATE OF d`)
  return others.filter((other) => findReasonToWait({ ...other, quiet_hours, now }) === null).map((other) => other.id)
}

async function queueTogether(tx: Queryable, alert: SentAlert, { domain_id }: Rule, ids: string[]): Promise<void> {
  const { organization_id, alert_id, payload } = alert
  const id = randomUUID()
  await tx.execute(sql`
    UPDATE webhook_deliveries SET told_with = ${id}, status = 'delivered', finished_at = now() WHERE id = ANY (${ids}::uuid[])`)
  const { pipelines, times, first } = (await tx.first<{
    pipelines: number
    times: number
    first: AlertPayload[]
  }>(sql`
    WITH told AS (
      SELECT payload->'pipeline'->>'id' AS pipeline_id, payload, created_at, id FROM webhook_deliveries WHERE told_with = ${id}),
    by_pipeline AS (SELECT DISTINCT ON (pipeline_id) * FROM told ORDER BY pipeline_id, created_at, id)
    SELECT (SELECT count(*)::int FROM by_pipeline) AS pipelines, (SELECT count(*)::int FROM told) AS times,
           (SELECT jsonb_agg(f.payload ORDER BY f.created_at, f.id) FROM (SELECT * FROM by_pipeline ORDER BY created_at, id LIMIT ${NAMED}) f) AS first`))!
  const together: AlertPayload = {
    event: payload.event,
    kind: null,
    alert: payload.alert,
    pipeline: null,
    run: null,
    opened_at: null,
    closed_at: null,
    together: { pipelines, times, domain_id, first: first.map(shorten) },
  }
  await tx.execute(sql`
    INSERT INTO webhook_deliveries (id, alert_id, organization_id, event, payload, told_at)
    VALUES (${id}, ${alert_id}, ${organization_id}, ${payload.event}, ${JSON.stringify(together)}, now())`)
}

function shorten({ alert, run, changes, ...payload }: AlertPayload) {
  const error = run?.error?.slice(0, LONGEST_REASON).toWellFormed() ?? null
  return {
    ...payload,
    run: run && { ...run, error },
    ...(changes && {
      changes: changes.slice(0, MOST_CHANGES),
      more_changes: Math.max(0, changes.length - MOST_CHANGES),
    }),
  }
}
