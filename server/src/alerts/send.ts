/** One attempt to send one alert. */
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { type Queryable, sql, type Transactions } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { lookUpAs } from '../egress/lookup.ts'
import type { Egress } from '../egress/policy.ts'
import { type Answer, unanswered } from '../egress/post-notice.ts'
import { allowedRecipients, type Channel, channelPlace, type MailSettings } from './channel.ts'
import { sendMail } from './email.ts'
import { gatherAlerts, holdWithOthers } from './gather.ts'
import { composeMessage } from './message.ts'
import { sendToSlack, slackBody } from './slack.ts'
import { findReasonToWait, type SentAlert, type Unsent } from './waiting.ts'

/** Of one organization, one for each recipient; more wait. */
export const MAILS_PER_HOUR = 200
const OVER_LIMIT_MS = 10 * 60 * 1000
/** What has waited for so long is no news any more. */
const GIVEN_UP_MS = 24 * 60 * 60 * 1000

export interface AlertServices {
  db: Transactions
  box: SecretBox
  egress: Pick<Egress, 'stream'>
  config: MailSettings & Pick<Config, 'FRONTEND_URL'>
  log: Logger
}

/** Null: nothing is to be done, because another message tells it. */
export async function sendAlert(
  services: AlertServices,
  alert: SentAlert,
  signal: AbortSignal,
): Promise<Answer | Unsent | null> {
  const { db, box, config } = services
  const { organization_id, alert_id, payload } = alert
  const isTest = payload.event === 'test'
  const unsent = isTest ? null : findReasonToWait(alert)
  if (unsent) return holdOrDrop(db, alert, unsent)
  const channel = box.open<Channel>(channelPlace(organization_id, alert_id), alert.channel_box)
  const to = channel.type === 'email' ? await allowedRecipients(db, config, organization_id, channel.to) : []
  if (channel.type === 'email' && to.length === 0)
    return unanswered('None of the recipients is a member of the organization any more; change the alert', false)
  if (!isTest && alert.told_at === null) {
    // Looked at before: what has to wait is told together then.
    if (!(await hasMailsLeft(db, organization_id, to.length))) return holdOrDrop(db, alert, waitForMails(alert))
    const decided = await gatherAlerts(db, alert)
    if (decided !== true) return decided
  }
  return channel.type === 'slack'
    ? sendInChat(services, alert, channel.url, signal)
    : sendByMail(services, alert, to, signal)
}

const holdOrDrop = async (db: Queryable, alert: SentAlert, unsent: Unsent): Promise<Unsent> =>
  'dropped' in unsent ? unsent : holdWithOthers(db, alert, unsent)

function sendInChat(
  { egress, config }: AlertServices,
  { id, organization_id, payload }: SentAlert,
  url: string,
  signal: AbortSignal,
): Promise<Answer> {
  const body = slackBody(composeMessage(payload), config.FRONTEND_URL)
  return lookUpAs(organization_id, () => sendToSlack(egress, { id, url, body }, signal))
}

async function sendByMail(
  services: AlertServices,
  alert: SentAlert,
  to: string[],
  signal: AbortSignal,
): Promise<Answer | Unsent> {
  const { id, organization_id, incident_id, payload } = alert
  if (!(await countMails(services.db, organization_id, to.length))) return waitForMails(alert)
  return sendMail(services, { id, incident_id, to, message: composeMessage(payload) }, signal)
}

/** A test is for somebody who looks at the screen now. */
function waitForMails({ payload, now, created_at }: SentAlert): Unsent {
  const reason = `The organization has sent ${MAILS_PER_HOUR} mails within an hour`
  if (payload.event === 'test') return { dropped: `${reason}; test it again later` }
  return now - Date.parse(created_at) > GIVEN_UP_MS
    ? { dropped: `${reason}, for a day; this one was given up` }
    : { held_ms: OVER_LIMIT_MS, error: `${reason}; this one waits` }
}

async function hasMailsLeft(db: Queryable, organizationId: string, mails: number): Promise<boolean> {
  if (mails === 0) return true
  const full = await db.first(sql`
    SELECT 1 FROM organization_mails WHERE organization_id = ${organizationId} AND hour >= date_trunc('hour', now()) AND mails + ${mails} > ${MAILS_PER_HOUR}`)
  return full === null
}

/** False if these would be too many. Counted before they are sent, whatever becomes of them. */
async function countMails(db: Queryable, organizationId: string, mails: number): Promise<boolean> {
  const counted = await db.execute(sql`
    INSERT INTO organization_mails AS m (organization_id, hour, mails) VALUES (${organizationId}, date_trunc('hour', now()), ${mails})
    ON CONFLICT (organization_id) DO UPDATE SET hour = greatest(m.hour, excluded.hour), mails = CASE WHEN m.hour < excluded.hour THEN 0 ELSE m.mails END + excluded.mails
     WHERE m.hour < excluded.hour OR m.mails + excluded.mails <= ${MAILS_PER_HOUR}`)
  return counted > 0
}
