import { ALERT_EVENTS } from '../../alerts/alerts.ts'
import { CHANNEL_TYPES, MAX_RECIPIENTS } from '../../alerts/channel.ts'
import { WEEKDAYS } from '../../alerts/quiet-hours.ts'
import { Type } from '../../schema.ts'
import { DELIVERY_STATUSES } from '../../webhooks/queue.ts'
import { Name, Nullable, OptionalPaging, Paging, patternOf, Timestamp, Uuid } from './common.ts'

const MINUTES_OF_A_YEAR = 525_600
const Records = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

/** Stricter than that of an account: nothing in it means anything in a mail header. */
const Recipient = Type.String({
  maxLength: 254,
  pattern: patternOf(
    '^[^\\s@<>,;:"()\\[\\]\\\\\\u0000-\\u001f\\u007f-\\u009f]+@[^\\s@<>,;:"()\\[\\]\\\\\\u0000-\\u001f\\u007f-\\u009f]+$',
    'must be an address such as ada@example.com',
  ),
})

export const AlertChannel = Type.Object(
  {
    type: Type.Enum([...CHANNEL_TYPES]),
    url: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2000,
        description: 'With slack: an incoming webhook. Shown with a mask, which may be sent back',
      }),
    ),
    to: Type.Optional(
      Type.Array(Recipient, { maxItems: MAX_RECIPIENTS, description: 'With email: members of the organization' }),
    ),
  },
  { description: 'Where it is sent: `{"type": "slack", "url": …}` or `{"type": "email", "to": [ … ]}`' },
)

const time = (pattern: string) =>
  Type.String({ pattern: patternOf(pattern, 'must be a time such as 22:00'), maxLength: 5 })

export const QuietHours = Type.Object(
  {
    from: time('^([01][0-9]|2[0-3]):[0-5][0-9]$'),
    to: time('^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$'),
    time_zone: Type.String({ maxLength: 100, description: 'Such as Europe/Berlin' }),
    days: Type.Optional(
      Type.Array(Type.Enum([...WEEKDAYS]), {
        minItems: 1,
        uniqueItems: true,
        description: 'On which they begin. Absent: every day',
      }),
    ),
  },
  {
    description:
      'Nothing is sent from `from` to `to`, which may be after midnight. What happens then is sent at their end, unless it is over by then',
  },
)

export const CreateAlert = Type.Object({
  name: Name,
  domain_id: Type.Optional(Nullable(Uuid)),
  pipeline_id: Type.Optional(
    Nullable(Type.String({ format: 'uuid', description: 'Without this and `domain_id`: every pipeline' })),
  ),
  on: Type.Array(Type.Enum([...ALERT_EVENTS]), { minItems: 1, uniqueItems: true }),
  late_after_minutes: Type.Optional(
    Nullable(
      Type.Integer({
        minimum: 1,
        maximum: MINUTES_OF_A_YEAR,
        description: 'With late: the time within which a run must succeed',
      }),
    ),
  ),
  min_records: Type.Optional(Nullable(Records)),
  max_records: Type.Optional(Nullable(Records)),
  channel: AlertChannel,
  quiet_hours: Type.Optional(Nullable(QuietHours)),
  enabled: Type.Optional(Type.Boolean({ description: 'Absent: true' })),
})
export const UpdateAlert = Type.Partial(CreateAlert)

export const AlertView = Type.Object({
  id: Uuid,
  name: Type.String(),
  domain_id: Nullable(Uuid),
  pipeline_id: Nullable(Uuid),
  on: Type.Array(Type.Enum([...ALERT_EVENTS])),
  late_after_minutes: Nullable(Type.Integer()),
  min_records: Nullable(Type.Integer()),
  max_records: Nullable(Type.Integer()),
  channel: Nullable(AlertChannel),
  quiet_hours: Nullable(QuietHours),
  enabled: Type.Boolean(),
  open_incidents: Type.Integer({ description: 'How many problems of pipelines it has told of that are not over' }),
  created_at: Timestamp,
  updated_at: Nullable(Timestamp),
})

export const AlertDeliveryView = Type.Object({
  id: Type.String({ format: 'uuid', description: 'The same at every attempt; also sent as X-Sluice-Delivery' }),
  alert_id: Uuid,
  incident_id: Nullable(Uuid),
  told_with: Nullable(
    Type.String({
      format: 'uuid',
      description:
        'The delivery whose message told this one too, when many came at once; what became of it is shown here',
    }),
  ),
  event: Type.Enum([...ALERT_EVENTS, 'test']),
  payload: Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true }),
  status: Type.Enum([...DELIVERY_STATUSES]),
  attempts: Type.Integer(),
  next_attempt_at: Nullable(Timestamp),
  response_status: Nullable(Type.Integer({ description: 'Of the last attempt that was answered' })),
  error: Nullable(Type.String({ description: 'Why it was not sent, or did not arrive' })),
  created_at: Timestamp,
  finished_at: Nullable(Timestamp),
})

export const AlertList = Type.Object(OptionalPaging)
export const AlertDeliveryList = Type.Object(Paging)
