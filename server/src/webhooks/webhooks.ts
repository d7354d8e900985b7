/**
 * Webhooks: where an organization wants to be notified of the ends of its runs. The signing secret is encrypted in its
 * row and leaves the service once, in the response to the creation. A URL can be a credential too (many chat services
 * put one into its path), so the audit log only gets its host.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { type Database, lockForTransaction, type Queryable, sql } from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { notifyRun } from '../database/notifications.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { checkReceiver } from '../egress/check-receiver.ts'
import type { Egress } from '../egress/policy.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { lockOwnRole } from '../tenancy/members.ts'
import type { RunEvent } from './events.ts'
import { type AnyDelivery, anyDeliveryColumns, requireShortQueue } from './queue.ts'

/** Each end of a run writes one row per webhook. */
export const MAX_WEBHOOKS = 50
const SIGNED = 'the receiver identifies us by the signature'
export const SHORTEST_SECRET = 16

export interface WebhookRow {
  id: string
  url: string
  events: RunEvent[]
  description: string | null
  enabled: boolean
  /** Why the service disabled it; null if it did not. */
  disabled_reason: string | null
  created_at: string
  updated_at: string | null
}

export interface WebhookInput {
  url: string
  events: RunEvent[]
  secret?: string
  description?: string | null
  enabled?: boolean
}

export interface DeliveryRow extends AnyDelivery {
  webhook_id: string
  event: RunEvent | 'test'
}

/** The services that these functions need. */
export interface WebhookTools {
  db: Database
  box: SecretBox
  egress: Pick<Egress, 'checkUrl'>
}

export const secretPlace = (organizationId: string, webhookId: string) => ({
  organization_id: organizationId,
  column: 'webhooks.secret_box',
  row_id: webhookId,
})

const columns = sql`id, url, events, description, enabled, disabled_reason, created_at, updated_at`
const deliveryColumns = sql`webhook_id, ${anyDeliveryColumns}`

export const listWebhooks = (db: Queryable, actor: Actor, paging: Paging): Promise<Listed<WebhookRow>> =>
  readList(
    db,
    paging,
    sql`SELECT ${columns} FROM webhooks WHERE organization_id = ${actor.organization_id} ORDER BY created_at DESC, id`,
    sql`SELECT 1 FROM webhooks WHERE organization_id = ${actor.organization_id}`,
  )

export async function readWebhook(db: Queryable, actor: Actor, id: string): Promise<WebhookRow> {
  const row = await db.first<WebhookRow>(
    sql`SELECT ${columns} FROM webhooks WHERE id = ${id} AND organization_id = ${actor.organization_id}`,
  )
  if (!row) throw notFound('Webhook')
  return row
}

export async function createWebhook(
  { db, box, egress }: WebhookTools,
  actor: Actor,
  input: WebhookInput,
): Promise<WebhookRow & { secret: string }> {
  const url = checkReceiver(egress, input.url, 'url', SIGNED)
  const secret = input.secret === undefined ? makeSecret() : checkSecret(input.secret)
  const id = randomUUID()
  const sealed = box.seal(secretPlace(actor.organization_id, id), secret)
  return db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    await lockForTransaction(tx, `webhooks ${actor.organization_id}`)
    const row = await tx.first<WebhookRow>(sql`
      INSERT INTO webhooks (id, organization_id, url, events, secret_box, description, enabled)
      SELECT ${id}, ${actor.organization_id}, ${url.href}, ${JSON.stringify(input.events)}, ${sealed}, ${input.description ?? null}, ${input.enabled ?? true}
       WHERE (SELECT count(*) FROM webhooks WHERE organization_id = ${actor.organization_id}) < ${MAX_WEBHOOKS}
      RETURNING ${columns}`)
    if (!row)
      throw new AppError('conflict', `The organization already has ${MAX_WEBHOOKS} webhooks; delete one that is unused`)
    await audit(tx, actor, 'webhook.created', {
      type: 'webhook',
      id,
      details: { host: url.host, events: input.events },
    })
    return { ...row, secret }
  })
}

/** Only given fields change; null clears the description. Pending deliveries go to the new address. */
export async function updateWebhook(
  { db, box, egress }: WebhookTools,
  actor: Actor,
  id: string,
  { url, events, secret, description, enabled }: Partial<WebhookInput>,
): Promise<WebhookRow> {
  const given = Object.entries({ url, events, secret, description, enabled }).flatMap(([field, value]) =>
    value === undefined ? [] : [field],
  )
  if (given.length === 0) return readWebhook(db, actor, id)
  const address = url === undefined ? null : checkReceiver(egress, url, 'url', SIGNED).href
  const sealed = secret === undefined ? null : box.seal(secretPlace(actor.organization_id, id), checkSecret(secret))
  return db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    const row = await tx.first<WebhookRow>(sql`
      UPDATE webhooks
         SET url = coalesce(${address}, url),
             events = coalesce(${events === undefined ? null : JSON.stringify(events)}::jsonb, events),
             secret_box = coalesce(${sealed}::bytea, secret_box),
             description = CASE WHEN ${description !== undefined} THEN ${description ?? null} ELSE description END,
             enabled = coalesce(${enabled ?? null}, enabled),
             -- Whoever decides about it begins a new count.
             disabled_reason = CASE WHEN ${enabled !== undefined} THEN NULL ELSE disabled_reason END,
             failing_since = CASE WHEN ${enabled !== undefined || address !== null} THEN NULL ELSE failing_since END,
             updated_at = now()
       WHERE id = ${id} AND organization_id = ${actor.organization_id}
      RETURNING ${columns}`)
    if (!row) throw notFound('Webhook')
    await audit(tx, actor, 'webhook.updated', {
      type: 'webhook',
      id,
      details: { host: new URL(row.url).host, events: row.events, enabled: row.enabled, fields: given },
    })
    return row
  })
}

/** Its deliveries are deleted with it, including pending ones. */
export async function deleteWebhook(db: Database, actor: Actor, id: string): Promise<void> {
  await db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    const row = await tx.first<{ url: string }>(
      sql`DELETE FROM webhooks WHERE id = ${id} AND organization_id = ${actor.organization_id} RETURNING url`,
    )
    if (!row) throw notFound('Webhook')
    await audit(tx, actor, 'webhook.deleted', { type: 'webhook', id, details: { host: new URL(row.url).host } })
  })
}

export async function listDeliveries(
  db: Queryable,
  actor: Actor,
  id: string,
  paging: Paging,
): Promise<Listed<DeliveryRow>> {
  await readWebhook(db, actor, id)
  return readList(
    db,
    paging,
    sql`SELECT ${deliveryColumns} FROM webhook_deliveries WHERE webhook_id = ${id} ORDER BY created_at DESC, id`,
    sql`SELECT 1 FROM webhook_deliveries WHERE webhook_id = ${id}`,
  )
}

/** Queues a delivery of the event `test`, which is sent like any other. */
export async function testWebhook(db: Database, actor: Actor, id: string): Promise<DeliveryRow> {
  return db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    const webhook = await readWebhook(tx, actor, id)
    if (!webhook.enabled) throw new AppError('conflict', 'The webhook is disabled; enable it, then test it')
    await requireShortQueue(tx, actor.organization_id, { webhook_id: id })
    const payload = { event: 'test', webhook_id: id, message: 'The webhook works: this is what it sends.' }
    const row = await tx.first<DeliveryRow>(sql`
      INSERT INTO webhook_deliveries (webhook_id, organization_id, event, payload)
      VALUES (${id}, ${actor.organization_id}, 'test', ${JSON.stringify(payload)})
      RETURNING ${deliveryColumns}`)
    await tx.execute(notifyRun('delivery'))
    await audit(tx, actor, 'webhook.tested', { type: 'webhook', id, details: { host: new URL(webhook.url).host } })
    return row!
  })
}

/** Sends the event of an earlier delivery again: a new delivery with the same event and payload. */
export async function resendDelivery(db: Database, actor: Actor, id: string, deliveryId: string): Promise<DeliveryRow> {
  return db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    const webhook = await readWebhook(tx, actor, id)
    const sent = await tx.first<{ status: DeliveryRow['status'] }>(
      sql`SELECT status FROM webhook_deliveries WHERE id = ${deliveryId} AND webhook_id = ${id}`,
    )
    if (!sent) throw notFound('Delivery')
    if (sent.status === 'pending')
      throw new AppError('conflict', 'The delivery is still being attempted; wait until it has ended')
    if (!webhook.enabled) throw new AppError('conflict', 'The webhook is disabled; enable it, then send again')
    await requireShortQueue(tx, actor.organization_id, { webhook_id: id })
    const row = await tx.first<DeliveryRow>(sql`
      INSERT INTO webhook_deliveries (webhook_id, organization_id, event, payload)
      SELECT webhook_id, organization_id, event, payload FROM webhook_deliveries WHERE id = ${deliveryId}
      RETURNING ${deliveryColumns}`)
    await tx.execute(notifyRun('delivery'))
    await audit(tx, actor, 'webhook.resent', {
      type: 'webhook',
      id,
      details: { host: new URL(webhook.url).host, delivery_id: deliveryId },
    })
    return row!
  })
}

const makeSecret = () => `whsec_${randomBytes(32).toString('base64url')}`

function checkSecret(secret: string): string {
  if (secret.length < SHORTEST_SECRET)
    throw new AppError(
      'invalid_input',
      `secret: must be at least ${SHORTEST_SECRET} characters long; leave it out to have one generated`,
    )
  return secret
}
