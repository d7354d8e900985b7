/** Whether an alert is sent now, after quiet hours, or not at all. */
import type { AlertPayload } from './message.ts'
import { endOfQuietHours, type QuietHours } from './quiet-hours.ts'

export interface SentAlert {
  id: string
  attempts: number
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
  /** Since when it is a message of its own (gather.ts). */
  told_at: string | null
  /** Milliseconds since 1970, by the database's clock. */
  now: number
}

/** What becomes of it, if it is not sent now. */
export type Unsent = { held_ms: number; error: string | null } | { dropped: string }

/**
 * What both began and ended within quiet hours was never worth a message, so neither of the two is sent. This depends on
 * nothing but when that was: whichever is looked at first, and however often, the answer is the same.
 */
export function findReasonToWait(
  alert: Pick<SentAlert, 'incident_id' | 'opened_at' | 'closed_at' | 'quiet_hours' | 'now'>,
): Unsent | null {
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
