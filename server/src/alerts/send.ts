/** One attempt to send one alert: now, after quiet hours, or not at all. */
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { lookUpAs } from '../egress/lookup.ts'
import type { Egress } from '../egress/policy.ts'
import { type Answer, unanswered } from '../egress/post-notice.ts'
import { allowedRecipients, type Channel, channelPlace, type MailSettings } from './channel.ts'
import { sendMail } from './email.ts'
import { type AlertPayload, composeMessage } from './message.ts'
import { endOfQuietHours, type QuietHours } from './quiet-hours.ts'
import { sendToSlack, slackBody } from './slack.ts'

/** Of one organization; more wait. The operator's server would be the one that is blocked for spam. */
export const MAILS_PER_HOUR = 60
const OVER_LIMIT_MS = 10 * 60 * 1000

export interface SentAlert {
  id: string
  organization_id: string
  alert_id: string
  incident_id: string | null
  payload: AlertPayload
  channel_box: Buffer
  quiet_hours: QuietHours | null
  /** Of the incident. Null if there is none, or if it was deleted with its pipeline. */
  opened_at: string | null
  closed_at: string | null
  /** Milliseconds since 1970, by the database's clock. */
  now: number
}

export interface AlertServices {
  db: Queryable
  box: SecretBox
  egress: Pick<Egress, 'stream'>
  config: MailSettings & Pick<Config, 'FRONTEND_URL'>
  log: Logger
}

/** What becomes of it, if it is not sent now. */
export type Unsent = { held_ms: number; error: string | null } | { dropped: string }

export function sendAlert(services: AlertServices, alert: SentAlert, signal: AbortSignal): Promise<Answer | Unsent> {
  const unsent = alert.payload.event === 'test' ? null : findReasonToWait(alert)
  return unsent ? Promise.resolve(unsent) : sendNow(services, alert, signal)
}

/**
 * What both began and ended within quiet hours was never worth a message, so neither of the two is sent. This depends on
 * nothing but when that was: whichever is looked at first, and however often, the answer is the same.
 */
export function findReasonToWait(alert: SentAlert): Unsent | null {
  const { incident_id, opened_at, closed_at, quiet_hours, now } = alert
  if (incident_id !== null && opened_at === null) return { dropped: 'The pipeline was deleted before this was sent' }
  if (quiet_hours === null) return null
  if (opened_at !== null && closed_at !== null) {
    const end = endOfQuietHours(quiet_hours, Date.parse(opened_at))
    if (end !== null && Date.parse(closed_at) < end) return { dropped: 'It began and ended within quiet hours' }
  }
  const end = endOfQuietHours(quiet_hours, now)
  return end === null ? null : { held_ms: end - now, error: null }
}

async function sendNow(services: AlertServices, alert: SentAlert, signal: AbortSignal): Promise<Answer | Unsent> {
  const { db, box, egress, config } = services
  const { id, organization_id, alert_id, incident_id, payload, channel_box } = alert
  const channel = box.open<Channel>(channelPlace(organization_id, alert_id), channel_box)
  const message = composeMessage(payload)
  if (channel.type === 'slack') {
    const body = slackBody(message, config.FRONTEND_URL)
    return lookUpAs(organization_id, () => sendToSlack(egress, { id, url: channel.url, body }, signal))
  }
  const to = await allowedRecipients(db, config, organization_id, channel.to)
  if (to.length === 0)
    return unanswered('None of the recipients is a member of the organization any more; change the alert', false)
  if ((await countMails(db, organization_id)) >= MAILS_PER_HOUR)
    return {
      held_ms: OVER_LIMIT_MS,
      error: `The organization has sent ${MAILS_PER_HOUR} mails within an hour; this one waits`,
    }
  return sendMail(services, { id, incident_id, to, message }, signal)
}

/** A mail that was taken has no status of HTTP, unlike what arrived in a chat. */
async function countMails(db: Queryable, organizationId: string): Promise<number> {
  const row = await db.first<{ mails: number }>(sql`
    SELECT count(*)::int AS mails FROM alerts a CROSS JOIN LATERAL (
      SELECT 1 FROM webhook_deliveries d
       WHERE d.alert_id = a.id AND d.created_at > now() - interval '1 day' AND d.finished_at > now() - interval '1 hour' AND d.status = 'delivered' AND d.response_status IS NULL
       LIMIT ${MAILS_PER_HOUR}) d
     WHERE a.organization_id = ${organizationId}`)
  return row!.mails
}
