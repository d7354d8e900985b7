/** An alert as its form holds it, and as the API takes it. */
import type { Schemas } from '../../api/client.ts'

export type Alert = Schemas['Alert']
export type AlertBody = Schemas['CreateAlert']
export type AlertEvent = AlertBody['on'][number]
type QuietHours = NonNullable<AlertBody['quiet_hours']>
export type Weekday = NonNullable<QuietHours['days']>[number]

export const EVENT_WORDS: Record<AlertEvent, string> = {
  failed: 'A run failed',
  late: 'No run succeeded in time',
  row_count: 'A run wrote too few or too many records',
  recovered: 'One of these is over',
  schema_changed: 'The columns changed',
}
export const EVENTS = Object.keys(EVENT_WORDS) as AlertEvent[]

export const WEEKDAYS: Record<Weekday, string> = {
  mon: 'Monday',
  tue: 'Tuesday',
  wed: 'Wednesday',
  thu: 'Thursday',
  fri: 'Friday',
  sat: 'Saturday',
  sun: 'Sunday',
}

/** Numbers and lists as they are typed. */
export interface AlertFields {
  name: string
  scope: 'organization' | 'domain' | 'pipeline'
  domain_id: string
  pipeline_id: string | null
  on: AlertEvent[]
  late_after_minutes: string
  min_records: string
  max_records: string
  type: 'slack' | 'email'
  url: string
  to: string
  quiet: boolean
  from: string
  until: string
  time_zone: string
  days: Weekday[]
}

export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'

export function readAlert(alert: Alert | null): AlertFields {
  const { channel, quiet_hours } = alert ?? { channel: null, quiet_hours: null }
  const text = (number: number | null | undefined) => (number == null ? '' : String(number))
  return {
    name: alert?.name ?? '',
    scope: alert?.pipeline_id ? 'pipeline' : alert?.domain_id ? 'domain' : 'organization',
    domain_id: alert?.domain_id ?? '',
    pipeline_id: alert?.pipeline_id ?? null,
    on: alert?.on ?? ['failed', 'recovered'],
    late_after_minutes: text(alert?.late_after_minutes),
    min_records: text(alert?.min_records),
    max_records: text(alert?.max_records),
    type: channel?.type ?? 'slack',
    url: channel?.url ?? '',
    to: (channel?.to ?? []).join('\n'),
    quiet: quiet_hours !== null,
    from: quiet_hours?.from ?? '22:00',
    until: quiet_hours?.to ?? '07:00',
    time_zone: quiet_hours?.time_zone ?? ownZone(),
    days: quiet_hours?.days ?? (Object.keys(WEEKDAYS) as Weekday[]),
  }
}

export function writeAlert(fields: AlertFields): AlertBody {
  const { on, scope, days } = fields
  const number = (text: string) => (text.trim() === '' ? null : Number(text))
  const isEveryDay = days.length === Object.keys(WEEKDAYS).length
  return {
    name: fields.name,
    domain_id: scope === 'domain' ? fields.domain_id : null,
    pipeline_id: scope === 'pipeline' ? fields.pipeline_id : null,
    on,
    late_after_minutes: on.includes('late') ? number(fields.late_after_minutes) : null,
    min_records: on.includes('row_count') ? number(fields.min_records) : null,
    max_records: on.includes('row_count') ? number(fields.max_records) : null,
    channel:
      fields.type === 'slack'
        ? { type: 'slack', url: fields.url }
        : { type: 'email', to: fields.to.split(/[\s,;]+/).filter((address) => address !== '') },
    quiet_hours: fields.quiet
      ? { from: fields.from, to: fields.until, time_zone: fields.time_zone, ...(!isEveryDay && { days }) }
      : null,
  }
}

export function sayChannel(channel: Alert['channel']): string {
  if (channel === null) return 'cannot be decrypted; save it again'
  return channel.type === 'slack' ? (URL.parse(channel.url ?? '')?.host ?? 'chat') : (channel.to ?? []).join(', ')
}
