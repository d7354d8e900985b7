/** Helpers for tests of alerts: rules, runs that end, and what is queued. */
import { randomBytes } from 'node:crypto'
import { sql } from '../../src/database/database.ts'
import { finishFailed, type RunLease } from '../../src/runs/finish.ts'
import { finishSuccess } from '../../src/runs/success.ts'
import { startWebhookDeliveries } from '../../src/webhooks/deliveries.ts'
import type { Person, TestApp } from '../harness/app.ts'

export const slackTo = (url: string) => ({ type: 'slack', url })

export async function createAlert(app: TestApp, as: Person, body: object): Promise<{ id: string }> {
  const answer = await app.call('POST', '/api/alerts', { as, body: { name: 'Tell us', ...body } })
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.body
}

export async function insertPipeline(
  { services: { db } }: TestApp,
  organizationId: string,
  { name = 'Orders', schedule = null as string | null, domain_id = null as string | null } = {},
): Promise<string> {
  const row = await db.first<{ id: string }>(sql`
    INSERT INTO pipelines (organization_id, name, config_box, stream, schedule, domain_id)
    VALUES (${organizationId}, ${name}, ${randomBytes(8)}, 'orders', ${schedule}, ${domain_id}) RETURNING id`)
  return row!.id
}

export interface RunEnd {
  status: 'success' | 'failed' | 'cancelled'
  records?: number
  error?: string
  triggered_by?: string
  changes?: string[]
}

/** A run that a worker holds, and then ends. */
export async function endRun(
  { services: { db } }: TestApp,
  pipelineId: string,
  { status, records = 10, error = 'source: the server answered 500', triggered_by = 'schedule', changes }: RunEnd,
): Promise<string> {
  const run = (await db.first<RunLease>(sql`
    INSERT INTO runs (organization_id, pipeline_id, status, triggered_by, ready, attempt, worker, started_at)
    SELECT organization_id, id, 'running', ${triggered_by}, false, 1, 'test', now() FROM pipelines WHERE id = ${pipelineId}
    RETURNING id, organization_id, pipeline_id, seq, attempt, worker`))!
  if (changes)
    await db.execute(sql`
      INSERT INTO pipeline_schemas AS s (pipeline_id, columns, changes)
      SELECT ${pipelineId}, '[]', jsonb_agg(jsonb_build_object('run_id', ${run.id}::uuid, 'change', c)) FROM unnest(${changes}::text[]) AS c
      ON CONFLICT (pipeline_id) DO UPDATE SET changes = s.changes || excluded.changes, updated_at = now()`)
  const outcome = { output: null, cursor: null, records_read: records, records_written: records, bytes_written: 100 }
  const ended =
    status === 'success'
      ? await finishSuccess(db, run, { outcome, incremental: false, log: null })
      : status === 'failed'
        ? await finishFailed(db, run, { error, log: null, counts: null })
        : (await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = ${run.id}`)) === 1
  if (!ended) throw new Error('the run did not end')
  return run.id
}

export interface Queued {
  id: string
  event: string
  status: string
  attempts: number
  error: string | null
  next_attempt_at: string
  incident_id: string | null
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever it holds
  payload: any
}

/** In the order in which it was queued. */
export const readQueue = ({ services: { db } }: TestApp, alert: { id: string }): Promise<Queued[]> =>
  db.query<Queued>(sql`
    SELECT id, event, status, attempts, error, next_attempt_at, incident_id, payload FROM webhook_deliveries WHERE alert_id = ${alert.id} ORDER BY created_at, event`)

export const eventsOf = async (app: TestApp, alert: { id: string }): Promise<string[]> =>
  (await readQueue(app, alert)).map(({ event }) => event)

/** Sends during the work. At its end every answered request is recorded. */
export async function whileSending<T>(app: TestApp, work: () => Promise<T>): Promise<T> {
  const sender = await startWebhookDeliveries(app.services)
  try {
    return await work()
  } finally {
    await sender.stop(AbortSignal.timeout(20_000))
  }
}

/** Waits until nothing of an alert is waiting to be sent now. */
export async function settled(app: TestApp, alert: { id: string }): Promise<void> {
  for (;;) {
    const row = await app.services.db.first(sql`
      SELECT 1 FROM webhook_deliveries WHERE alert_id = ${alert.id} AND status = 'pending' AND (next_attempt_at <= now() OR attempts > 0 AND error IS NULL)`)
    if (!row) return
    await new Promise(setImmediate)
  }
}
