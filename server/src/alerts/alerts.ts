/**
 * Alerts: rules that say who is told what about which pipelines. What people were told and has not ended yet are the
 * incidents of a rule (incidents.ts).
 */
import { randomUUID } from 'node:crypto'
import { type Database, lockForTransaction, type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { notifyRun } from '../database/notifications.ts'
import type { SecretBox } from '../database/secret-box.ts'
import type { Egress } from '../egress/policy.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { lockOwnRole } from '../tenancy/members.ts'
import {
  type Channel,
  type ChannelInput,
  channelPlace,
  checkChannel,
  describeChannel,
  type MailSettings,
  openChannel,
  showChannel,
} from './channel.ts'
import { lockMessages } from './lock-messages.ts'
import { checkQuietHours, type QuietHours } from './quiet-hours.ts'

/** Each end of a run compares itself with all of them. */
export const MAX_ALERTS = 50
export const ALERT_EVENTS = ['failed', 'recovered', 'late', 'row_count', 'schema_changed'] as const
export type AlertEvent = (typeof ALERT_EVENTS)[number]
/** What can end, and be recovered from. */
const LASTING: readonly AlertEvent[] = ['failed', 'late', 'row_count']

interface Rule {
  name: string
  domain_id: string | null
  pipeline_id: string | null
  on: AlertEvent[]
  late_after_minutes: number | null
  min_records: number | null
  max_records: number | null
  quiet_hours: QuietHours | null
  enabled: boolean
}

export interface AlertRow extends Rule {
  id: string
  channel: Channel | null
  open_incidents: number
  created_at: string
  updated_at: string | null
}

export type AlertInput = Pick<Rule, 'name' | 'on'> & Partial<Rule> & { channel: ChannelInput }

type StoredAlert = Omit<AlertRow, 'channel'> & { organization_id: string; channel_box: Buffer }

export interface AlertTools {
  db: Database
  box: SecretBox
  egress: Pick<Egress, 'checkUrl'>
  config: MailSettings
}

const columns = sql`id, organization_id, name, domain_id, pipeline_id, "on", late_after_minutes, min_records, max_records, channel_box, quiet_hours, enabled, created_at, updated_at,
  (SELECT count(*)::int FROM alert_incidents i WHERE i.alert_id = alerts.id AND i.closed_at IS NULL) AS open_incidents`

function show(box: SecretBox, { organization_id, channel_box, ...row }: StoredAlert): AlertRow {
  return { ...row, channel: showChannel(openChannel(box, { id: row.id, organization_id, channel_box })) }
}

export async function listAlerts(
  { db, box }: Pick<AlertTools, 'db' | 'box'>,
  actor: Actor,
  paging: Paging,
): Promise<Listed<AlertRow>> {
  const { rows, total } = await readList<StoredAlert>(
    db,
    paging,
    sql`SELECT ${columns} FROM alerts WHERE organization_id = ${actor.organization_id} ORDER BY created_at DESC, id`,
    sql`SELECT 1 FROM alerts WHERE organization_id = ${actor.organization_id}`,
  )
  return { rows: rows.map((row) => show(box, row)), total }
}

export async function readAlert(
  { db, box }: { db: Queryable; box: SecretBox },
  actor: Actor,
  id: string,
): Promise<AlertRow> {
  return show(box, await findAlert(db, actor, id))
}

async function findAlert(db: Queryable, actor: Actor, id: string, locking = sql``): Promise<StoredAlert> {
  const row = await db.first<StoredAlert>(
    sql`SELECT ${columns} FROM alerts WHERE id = ${id} AND organization_id = ${actor.organization_id}${locking}`,
  )
  if (!row) throw notFound('Alert')
  return row
}

export async function createAlert(tools: AlertTools, actor: Actor, input: AlertInput): Promise<AlertRow> {
  const { db, box, egress, config } = tools
  const rule = checkRule({ ...NEW_RULE, ...input })
  const id = randomUUID()
  return db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    await lockForTransaction(tx, `alerts ${actor.organization_id}`)
    await requireScope(tx, actor, rule)
    const channel = await checkChannel({ tx, egress, config }, actor.organization_id, input.channel, null)
    const sealed = box.seal(channelPlace(actor.organization_id, id), channel)
    const row = await tx.first<StoredAlert>(sql`
      INSERT INTO alerts (id, organization_id, name, domain_id, pipeline_id, "on", late_after_minutes, min_records, max_records, quiet_hours, enabled, channel_box)
      SELECT ${id}, ${actor.organization_id}, ${rule.name}, ${rule.domain_id}, ${rule.pipeline_id}, ${JSON.stringify(rule.on)}, ${rule.late_after_minutes},
             ${rule.min_records}, ${rule.max_records}, ${jsonOrNull(rule.quiet_hours)}, ${rule.enabled}, ${sealed}
       WHERE (SELECT count(*) FROM alerts WHERE organization_id = ${actor.organization_id}) < ${MAX_ALERTS}
      RETURNING ${columns}`)
    if (!row)
      throw new AppError('conflict', `The organization already has ${MAX_ALERTS} alerts; delete one that is unused`)
    await audit(tx, actor, 'alert.created', {
      type: 'alert',
      id,
      details: { name: rule.name, on: rule.on, ...describeChannel(channel) },
    })
    return show(box, row)
  })
}

const NEW_RULE = {
  domain_id: null,
  pipeline_id: null,
  late_after_minutes: null,
  min_records: null,
  max_records: null,
  quiet_hours: null,
  enabled: true,
}

/**
 * Only given fields change. After a change of what it watches, a rule starts anew: its incidents are closed without a word.
 * What waits for the end of quiet hours is looked at again.
 */
export async function updateAlert(
  { db, box, egress, config }: AlertTools,
  actor: Actor,
  id: string,
  input: Partial<AlertInput>,
): Promise<AlertRow> {
  refuseTwoScopes(input)
  const given = Object.keys(input)
  if (given.length === 0) return readAlert({ db, box }, actor, id)
  return db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    // Before the rule: who deletes a pipeline deletes its rules, and locks in this order too.
    await requireScope(tx, actor, input)
    const before = await findAlert(tx, actor, id, sql` FOR NO KEY UPDATE`)
    const { channel: newChannel, ...changes } = input
    const rule = checkRule({ ...before, ...changes })
    const stored = openChannel(box, before)
    const channel =
      newChannel && (await checkChannel({ tx, egress, config }, actor.organization_id, newChannel, stored))
    const sealed = channel ? box.seal(channelPlace(actor.organization_id, id), channel) : before.channel_box
    await tx.execute(sql`
      UPDATE alerts SET name = ${rule.name}, domain_id = ${rule.domain_id}, pipeline_id = ${rule.pipeline_id}, "on" = ${JSON.stringify(rule.on)},
             late_after_minutes = ${rule.late_after_minutes}, min_records = ${rule.min_records}, max_records = ${rule.max_records},
             quiet_hours = ${jsonOrNull(rule.quiet_hours)}, enabled = ${rule.enabled}, channel_box = ${sealed}, late_check_at = now(), updated_at = now()
       WHERE id = ${id}`)
    if (WATCHED.some((field) => JSON.stringify(rule[field]) !== JSON.stringify(before[field])))
      await tx.execute(sql`UPDATE alert_incidents SET closed_at = now() WHERE alert_id = ${id} AND closed_at IS NULL`)
    if (changes.quiet_hours !== undefined) {
      await lockMessages(tx, id)
      await tx.execute(makeDue(id))
    }
    await tx.execute(notifyRun('delivery'))
    await audit(tx, actor, 'alert.updated', { type: 'alert', id, details: { name: rule.name, fields: given.sort() } })
    return show(box, await findAlert(tx, actor, id))
  })
}

const WATCHED = [
  'domain_id',
  'pipeline_id',
  'on',
  'late_after_minutes',
  'min_records',
  'max_records',
  'enabled',
] as const

const makeDue = (id: string): Statement =>
  sql`UPDATE webhook_deliveries SET next_attempt_at = now() WHERE alert_id = ${id} AND status = 'pending' AND attempts = 0`

/** Its incidents and deliveries are deleted with it, including pending ones. */
export async function deleteAlert(db: Database, actor: Actor, id: string): Promise<void> {
  await db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'webhooks:write')
    const row = await tx.first<{ name: string }>(
      sql`DELETE FROM alerts WHERE id = ${id} AND organization_id = ${actor.organization_id} RETURNING name`,
    )
    if (!row) throw notFound('Alert')
    await audit(tx, actor, 'alert.deleted', { type: 'alert', id, details: { name: row.name } })
  })
}

const jsonOrNull = (value: object | null): string | null => (value === null ? null : JSON.stringify(value))

function checkRule(given: Rule): Rule {
  const { on, late_after_minutes, min_records, max_records } = given
  const refuse = (sentence: string) => new AppError('invalid_input', sentence)
  refuseTwoScopes(given)
  if (on.includes('recovered') && !on.some((event) => LASTING.includes(event)))
    throw refuse(`on: recovered needs at least one of ${LASTING.join(', ')}`)
  if (on.includes('late') !== (late_after_minutes !== null))
    throw refuse(
      on.includes('late')
        ? 'late_after_minutes: is required with late; give the minutes within which a run must succeed'
        : 'late_after_minutes: is only for late; add late to `on`, or send null',
    )
  const limits = min_records !== null || max_records !== null
  if (on.includes('row_count') !== limits)
    throw refuse(
      limits
        ? 'min_records, max_records: are only for row_count; add row_count to `on`, or send null'
        : 'min_records: give min_records, max_records or both with row_count',
    )
  if (min_records !== null && max_records !== null && min_records > max_records)
    throw refuse('max_records: must not be less than min_records')
  if (given.quiet_hours !== null) checkQuietHours(given.quiet_hours)
  return { ...given, name: given.name.trim() }
}

type Scope = Partial<Pick<Rule, 'domain_id' | 'pipeline_id'>>

function refuseTwoScopes({ domain_id, pipeline_id }: Scope): void {
  if (domain_id && pipeline_id)
    throw new AppError(
      'invalid_input',
      'domain_id: give either domain_id or pipeline_id, or neither for the whole organization',
    )
}

/** Locked, so that neither is deleted before the rule is saved. */
async function requireScope(
  tx: Queryable,
  { organization_id }: Actor,
  { domain_id, pipeline_id }: Scope,
): Promise<void> {
  const isThere = async (table: Statement, id: string) =>
    (await tx.first(
      sql`SELECT 1 FROM ${table} WHERE organization_id = ${organization_id} AND id = ${id} FOR KEY SHARE`,
    )) !== null
  if (domain_id && !(await isThere(raw('domains'), domain_id))) throw notFound('Domain')
  if (pipeline_id && !(await isThere(raw('pipelines'), pipeline_id))) throw notFound('Pipeline')
}
