/**
 * The queue of deliveries, to webhooks and of alerts. A delivery is pending until it is delivered or given up, and `next_attempt_at` says when
 * it is due. A claim increments `attempts` and moves that time past the longest possible request: that is its lease. A
 * sender that dies leaves a row that falls due again, so delivery is at least once. Every end names the attempt, so a sender
 * that was paused past its lease changes nothing.
 *
 *   pending    claim       attempts + 1, due again after the lease
 *   pending →  delivered   the receiver answered 2xx
 *   pending →  failed      the last attempt, a permanent refusal, or something that is no longer worth sending
 *   pending    retry       due after the back-off
 *   pending    hold        not now: attempts - 1, due later
 *   pending →  delivered   the message of another delivery tells it too (`told_with`, alerts/gather.ts)
 *   pending    release     the service stops: attempts - 1, due at once
 */

import type { SentAlert } from '../alerts/waiting.ts'
import { type Database, lockForTransaction, type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { countUpTo } from '../database/lists.ts'
import { AppError } from '../errors.ts'
import type { Json } from '../json/json.ts'

const LEASE_SECONDS = 60
const KEPT_DAYS = 30
const DISABLED_AFTER_DAYS = 3
const REMOVED_AT_ONCE = 1000

interface Claimed {
  id: string
  organization_id: string
  attempts: number
  /** Of its webhook or alert. */
  enabled: boolean
}

export interface ClaimedEvent extends Claimed {
  webhook_id: string
  alert_id: null
  event: string
  payload: Record<string, Json>
  created_at: string
  url: string
  secret_box: Buffer
  timestamp: number
}

interface ClaimedAlert extends Claimed, SentAlert {}

export type ClaimedDelivery = ClaimedEvent | ClaimedAlert

export interface ClaimLimits {
  free: number
  perOrganization: number
  /** How many requests this sender has in flight, by organization. */
  busy: ReadonlyMap<string, number>
}

/**
 * Claims due deliveries: first from the organizations with the fewest in flight, so that one organization's backlog
 * does not delay the others. Claims of all senders are serialized; otherwise two would look at the same rows and one
 * would get nothing.
 */
export function claimDeliveries(
  db: Database,
  { free, perOrganization, busy }: ClaimLimits,
): Promise<ClaimedDelivery[]> {
  return db.transaction(async (tx) => {
    await lockForTransaction(tx, 'sluice webhook deliveries')
    return tx.query<ClaimedDelivery>(sql`
      WITH RECURSIVE waiting AS (
        (SELECT organization_id FROM webhook_deliveries WHERE status = 'pending' ORDER BY organization_id LIMIT 1)
        UNION ALL
        SELECT (SELECT d.organization_id FROM webhook_deliveries d WHERE d.status = 'pending' AND d.organization_id > w.organization_id
                 ORDER BY d.organization_id LIMIT 1)
          FROM waiting w WHERE w.organization_id IS NOT NULL
      ),
      candidates AS (
        SELECT c.id, c.next_attempt_at, coalesce(b.busy, 0) + row_number() OVER (PARTITION BY w.organization_id ORDER BY c.next_attempt_at) AS turn
          FROM waiting w
          LEFT JOIN unnest(${[...busy.keys()]}::uuid[], ${[...busy.values()]}::int[]) AS b (organization_id, busy) ON b.organization_id = w.organization_id
         CROSS JOIN LATERAL (
           SELECT d.id, d.next_attempt_at FROM webhook_deliveries d
            WHERE d.organization_id = w.organization_id AND d.status = 'pending' AND d.next_attempt_at <= now()
            ORDER BY d.next_attempt_at LIMIT greatest(0, ${perOrganization} - coalesce(b.busy, 0))) c
         WHERE w.organization_id IS NOT NULL
      ),
      chosen AS (SELECT id FROM candidates ORDER BY turn, next_attempt_at LIMIT ${free}),
      -- A row that is being deleted or ended at this moment is passed over, not waited for.
      held AS (SELECT id FROM webhook_deliveries WHERE id IN (SELECT id FROM chosen) AND status = 'pending' AND next_attempt_at <= now() FOR UPDATE SKIP LOCKED),
      taken AS (
        UPDATE webhook_deliveries d SET attempts = d.attempts + 1, next_attempt_at = now() + make_interval(secs => ${LEASE_SECONDS})
          FROM held h WHERE d.id = h.id
        RETURNING d.*
      )
      SELECT t.id, t.webhook_id, t.alert_id, t.incident_id, t.organization_id, t.event, t.payload, t.attempts, t.created_at, t.told_at, w.url, w.secret_box,
             coalesce(w.enabled, a.enabled) AS enabled, a.channel_box, a.quiet_hours, i.opened_at, i.closed_at,
             floor(extract(epoch FROM clock_timestamp()))::bigint AS timestamp, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
        FROM taken t LEFT JOIN webhooks w ON w.id = t.webhook_id LEFT JOIN alerts a ON a.id = t.alert_id LEFT JOIN alert_incidents i ON i.id = t.incident_id`)
  })
}

/** When the next delivery falls due, in milliseconds from now; null if none is pending. */
export async function nextDueMs(db: Queryable): Promise<number | null> {
  const row = await db.first<{ ms: number | null }>(sql`
    SELECT (extract(epoch FROM min(next_attempt_at) - now()) * 1000)::float8 AS ms
      FROM webhook_deliveries WHERE status = 'pending' AND next_attempt_at > now()`)
  return row?.ms ?? null
}

type DeliveryLease = Pick<ClaimedDelivery, 'id' | 'attempts'>

export const noteDelivered = (
  db: Queryable,
  { id, attempts }: DeliveryLease,
  responseStatus: number | null,
): Promise<number> =>
  db.execute(sql`
    WITH noted AS (
      UPDATE webhook_deliveries SET status = 'delivered', response_status = ${responseStatus}, error = NULL, finished_at = now()
       WHERE id = ${id} AND attempts = ${attempts} AND status = 'pending' RETURNING webhook_id),
    works AS (UPDATE webhooks SET failing_since = NULL WHERE id IN (SELECT webhook_id FROM noted) AND failing_since IS NOT NULL)
    SELECT 1 FROM noted`)

export interface Refusal {
  response_status: number | null
  error: string
}

/**
 * Records a failure on the webhook, but only writes if that changes something: the first failure, and the one that
 * finds it failing for too long. `noted` holds the failed delivery.
 */
const countFailure = (error: string): Statement => sql`
  UPDATE webhooks SET failing_since = coalesce(failing_since, now()), enabled = enabled AND failing_since IS NULL,
         disabled_reason = CASE WHEN failing_since IS NOT NULL AND enabled
           THEN ${`Disabled because no delivery succeeded for ${DISABLED_AFTER_DAYS} days; the last attempt: `} || ${error} ELSE disabled_reason END
   WHERE id IN (SELECT webhook_id FROM noted)
     AND (failing_since IS NULL OR enabled AND failing_since < now() - make_interval(days => ${DISABLED_AFTER_DAYS}))`

export const noteRetry = (
  db: Queryable,
  { id, attempts }: DeliveryLease,
  { response_status, error }: Refusal,
  delayMs: number,
): Promise<number> =>
  db.execute(sql`
    WITH noted AS (
      UPDATE webhook_deliveries SET response_status = ${response_status}, error = ${error}, next_attempt_at = now() + make_interval(secs => ${delayMs / 1000})
       WHERE id = ${id} AND attempts = ${attempts} AND status = 'pending' RETURNING webhook_id),
    counted AS (${countFailure(error)})
    SELECT 1 FROM noted`)

export const noteFailed = (
  db: Queryable,
  { id, attempts }: DeliveryLease,
  { response_status, error }: Refusal,
): Promise<number> =>
  db.execute(sql`
    WITH noted AS (
      UPDATE webhook_deliveries SET status = 'failed', response_status = ${response_status}, error = ${error}, finished_at = now()
       WHERE id = ${id} AND attempts = ${attempts} AND status = 'pending' RETURNING webhook_id),
    counted AS (${countFailure(error)})
    SELECT 1 FROM noted`)

/** Nothing was sent, and nothing will be: it was disabled, or is over, since the delivery was queued. */
export const noteDropped = (db: Queryable, { id, attempts }: DeliveryLease, reason: string): Promise<number> =>
  db.execute(sql`
    UPDATE webhook_deliveries SET status = 'failed', error = ${reason}, attempts = attempts - 1, finished_at = now()
     WHERE id = ${id} AND attempts = ${attempts} AND status = 'pending'`)

export const holdDelivery = (
  db: Queryable,
  { id, attempts }: DeliveryLease,
  { held_ms, error }: { held_ms: number; error: string | null },
): Promise<number> =>
  db.execute(sql`
    UPDATE webhook_deliveries SET attempts = attempts - 1, next_attempt_at = now() + make_interval(secs => ${held_ms / 1000}), error = ${error}
     WHERE id = ${id} AND attempts = ${attempts} AND status = 'pending'`)

export const releaseDelivery = (db: Queryable, { id, attempts }: DeliveryLease): Promise<number> =>
  db.execute(sql`
    UPDATE webhook_deliveries SET attempts = attempts - 1, next_attempt_at = now()
     WHERE id = ${id} AND attempts = ${attempts} AND status = 'pending'`)

/** Tests and repetitions are refused while this many deliveries wait; those of runs are not. */
export const MAX_WAITING = 100
export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const

/** A delivery as it is shown. */
export interface AnyDelivery {
  id: string
  event: string
  payload: Record<string, Json>
  status: (typeof DELIVERY_STATUSES)[number]
  attempts: number
  next_attempt_at: string | null
  response_status: number | null
  error: string | null
  created_at: string
  finished_at: string | null
}

export const anyDeliveryColumns = sql`id, event, payload, status, attempts,
  CASE WHEN status = 'pending' THEN next_attempt_at END AS next_attempt_at, response_status, error, created_at, finished_at`

/** Requests of one webhook or alert are serialized; otherwise all would find the last place free. */
export async function requireShortQueue(
  tx: Queryable,
  organizationId: string,
  of: { webhook_id: string } | { alert_id: string },
): Promise<void> {
  const [what, column, id] =
    'alert_id' in of ? ['alert', raw('alert_id'), of.alert_id] : ['webhook', raw('webhook_id'), of.webhook_id]
  await lockForTransaction(tx, `${what} queue ${id}`)
  const waiting = await countUpTo(
    tx,
    sql`SELECT 1 FROM webhook_deliveries WHERE organization_id = ${organizationId} AND ${column} = ${id} AND status = 'pending'`,
    MAX_WAITING,
  )
  if (waiting >= MAX_WAITING)
    throw new AppError(
      'too_many_requests',
      `${MAX_WAITING} deliveries of this ${what} are waiting to be sent; try again when some have ended, or disable it to give them up`,
      { 'Retry-After': '60' },
    )
}

/** Removes deliveries that ended long ago, in small batches. */
export async function removeOldDeliveries(db: Queryable): Promise<number> {
  let removed = 0
  for (;;) {
    const count = await db.execute(sql`
      DELETE FROM webhook_deliveries WHERE id IN (
        SELECT id FROM webhook_deliveries WHERE finished_at < now() - make_interval(days => ${KEPT_DAYS}) LIMIT ${REMOVED_AT_ONCE} FOR UPDATE SKIP LOCKED)`)
    removed += count
    if (count < REMOVED_AT_ONCE) return removed
  }
}
