/** Helpers for webhook tests: webhooks, their deliveries, and runs that end. */
import { randomBytes } from 'node:crypto'
import { sql } from '../../src/database/database.ts'
import { notifyRun } from '../../src/database/notifications.ts'
import { finishFailed, type RunLease } from '../../src/runs/finish.ts'
import { finishSuccess } from '../../src/runs/success.ts'
import { startWebhookDeliveries, type WebhookDeliveries } from '../../src/webhooks/deliveries.ts'
import type { DeliveryRow } from '../../src/webhooks/webhooks.ts'
import type { Person, TestApp } from '../harness/app.ts'

export interface Hook {
  id: string
  secret: string
}

export async function createHook(app: TestApp, as: Person, url: string, events = ['run.failed']): Promise<Hook> {
  const answer = await app.call('POST', '/api/webhooks', { as, body: { url, events } })
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.body
}

export async function sendTest(app: TestApp, as: Person, hook: Hook): Promise<DeliveryRow> {
  const answer = await app.call('POST', `/api/webhooks/${hook.id}/test`, { as })
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.body
}

export async function readDeliveries(app: TestApp, as: Person, hook: Hook): Promise<DeliveryRow[]> {
  return (await app.call('GET', `/api/webhooks/${hook.id}/deliveries`, { as })).body
}

/** Sends deliveries during the work. At its end every answered request is recorded. */
export async function whileSending<T>(app: TestApp, work: (sender: WebhookDeliveries) => Promise<T>): Promise<T> {
  const sender = await startWebhookDeliveries(app.services)
  try {
    return await work(sender)
  } finally {
    await sender.stop(AbortSignal.timeout(20_000))
  }
}

/** Makes the next attempt, or the end of a lease, due now. */
export async function makeDue({ services: { db } }: TestApp, deliveryId: string): Promise<void> {
  await db.execute(sql`UPDATE webhook_deliveries SET next_attempt_at = now() WHERE id = ${deliveryId}`)
  await db.execute(notifyRun('delivery'))
}

export async function insertPipeline({ services: { db } }: TestApp, organizationId: string): Promise<string> {
  const row = await db.first<{ id: string }>(sql`
    INSERT INTO pipelines (organization_id, name, config_box, stream) VALUES (${organizationId}, 'Orders', ${randomBytes(8)}, 'orders') RETURNING id`)
  return row!.id
}

/** A run that a worker holds, and then ends. */
export async function endRun(
  { services: { db } }: TestApp,
  organizationId: string,
  pipelineId: string,
  status: 'success' | 'failed',
): Promise<string> {
  const run = await db.first<RunLease>(sql`
    INSERT INTO runs (organization_id, pipeline_id, status, triggered_by, ready, attempt, worker, started_at)
    VALUES (${organizationId}, ${pipelineId}, 'running', 'manual', false, 1, 'test', now()) RETURNING id, organization_id, pipeline_id, seq, attempt, worker`)
  const outcome = { output: null, cursor: null, records_read: 10, records_written: 10, bytes_written: 100 }
  const ended =
    status === 'failed'
      ? await finishFailed(db, run!, { error: 'source: the server answered 500', log: null, counts: null })
      : await finishSuccess(db, run!, { outcome, incremental: false, log: null })
  if (!ended) throw new Error('the run did not end')
  return run!.id
}
