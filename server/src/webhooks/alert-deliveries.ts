/** What alerts have sent, and tests of them. */
import { type AlertEvent, readAlert } from '../alerts/alerts.ts'
import type { AlertPayload } from '../alerts/message.ts'
import { type Database, sql } from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { notifyRun } from '../database/notifications.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { AppError } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { lockOwnRole } from '../tenancy/members.ts'
import { type AnyDelivery, anyDeliveryColumns, requireShortQueue } from './queue.ts'

export interface AlertDeliveryRow extends AnyDelivery {
  alert_id: string
  event: AlertEvent | 'test'
  incident_id: string | null
  told_with: string | null
}

interface Stores {
  db: Database
  box: SecretBox
}

const columns = sql`alert_id, incident_id, told_with, ${anyDeliveryColumns}`

/** What was told in the message of another delivery shows what became of that message, `m`. */
const shownColumns = sql`d.alert_id, d.incident_id, d.told_with, d.id, d.event, d.payload, m.status, m.attempts,
  CASE WHEN m.status = 'pending' THEN m.next_attempt_at END AS next_attempt_at, m.response_status, m.error, d.created_at, m.finished_at`

export async function listAlertDeliveries(
  { db, box }: Stores,
  actor: Actor,
  id: string,
  paging: Paging,
): Promise<Listed<AlertDeliveryRow>> {
  await readAlert({ db, box }, actor, id)
  return readList(
    db,
    paging,
    sql`SELECT ${shownColumns} FROM webhook_deliveries d JOIN webhook_deliveries m ON m.id = coalesce(d.told_with, d.id)
         WHERE d.alert_id = ${id} ORDER BY d.created_at DESC, d.id`,
    sql`SELECT 1 FROM webhook_deliveries WHERE alert_id = ${id}`,
  )
}

/** Queues a test, which is sent like any other alert, but in quiet hours too. */
export async function testAlert({ db, box }: Stores, actor: Actor, id: string): Promise<AlertDeliveryRow> {
  return db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    const { name, enabled } = await readAlert({ db: tx, box }, actor, id)
    if (!enabled) throw new AppError('conflict', 'The alert is disabled; enable it, then test it')
    await requireShortQueue(tx, actor.organization_id, { alert_id: id })
    const payload: AlertPayload = {
      event: 'test',
      kind: null,
      alert: { id, name },
      pipeline: null,
      run: null,
      opened_at: null,
      closed_at: null,
    }
    const row = await tx.first<AlertDeliveryRow>(sql`
      INSERT INTO webhook_deliveries (alert_id, organization_id, event, payload)
      VALUES (${id}, ${actor.organization_id}, 'test', ${JSON.stringify(payload)}) RETURNING ${columns}`)
    await tx.execute(notifyRun('delivery'))
    await audit(tx, actor, 'alert.tested', { type: 'alert', id, details: { name } })
    return row!
  })
}
