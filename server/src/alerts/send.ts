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

/** Of one organization, one for each recipient; more wait. */
export const MAILS_PER_HOUR = 200
const OVER_LIMIT_MS = 10 * 60 * 1000
/** What has waited for so long is no news any more. */
const GIVEN_UP_MS = 24 * 60 * 60 * 1000

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
  created_at: string
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
  if (!(await countMails(db, organization_id, to.length))) {
    const reason = `The organization has sent ${MAILS_PER_HOUR} mails within an hour`
    return alert.now - Date.parse(alert.created_at) > GIVEN_UP_MS
      ? { dropped: `${reason}, for a day; this one was given up` }
      : { held_ms: OVER_LIMIT_MS, error: `${reason}; this one waits` }
  }
  return sendMail(services, { id, incident_id, to, message }, signal)
}

/** False if these would be too many. Counted before they are sent, whatever becomes of them. */
async function countMails(db: Queryable, organizationId: string, mails: number): Promise<boolean> {
  const counted = await db.execute(sql`
    INSERT INTO organization_mails AS m (organization_id, hour, mails) VALUES (${organizationId}, date_trunc('hour', now()), ${mails})
    ON CONFLICT (organization_id) DO UPDATE SET hour = greatest(m.hour, excluded.hour), mails = CASE WHEN m.hour < excluded.hour THEN 0 ELSE m.mails END + excluded.mails
     WHERE m.hour < excluded.hour OR m.mails + excluded.mails <= ${MAILS_PER_HOUR}`)
  return counted > 0
}
