import { Type } from '../../schema.ts'
import { RUN_EVENTS } from '../../webhooks/events.ts'
import { DELIVERY_STATUSES } from '../../webhooks/queue.ts'
import { SHORTEST_SECRET } from '../../webhooks/webhooks.ts'
import { Description, Nullable, OptionalPaging, Paging, Timestamp, Uuid } from './common.ts'

const Events = Type.Array(Type.Enum([...RUN_EVENTS]), {
  minItems: 1,
  uniqueItems: true,
  description: 'A success after a failure is both `run.succeeded` and `run.recovered`',
})

export const CreateWebhook = Type.Object({
  url: Type.String({ minLength: 1, maxLength: 2000, description: 'https:// or http://, without a user name' }),
  events: Events,
  secret: Type.Optional(
    Type.String({
      maxLength: 256,
      description: `Signs what is sent; at least ${SHORTEST_SECRET} characters. Absent: one is made`,
    }),
  ),
  description: Type.Optional(Nullable(Description)),
  enabled: Type.Optional(Type.Boolean({ description: 'Absent: true' })),
})
export const UpdateWebhook = Type.Partial(CreateWebhook)

export const WebhookView = Type.Object({
  id: Uuid,
  url: Type.String(),
  events: Type.Array(Type.String()),
  description: Nullable(Type.String()),
  enabled: Type.Boolean(),
  disabled_reason: Nullable(
    Type.String({
      description: 'Why the service disabled it: nothing arrived for three days. Enabling it clears this',
    }),
  ),
  created_at: Timestamp,
  updated_at: Nullable(Timestamp),
})
export const CreatedWebhook = Type.Object({
  ...WebhookView.properties,
  secret: Type.String({ description: 'Verifies signatures: shown here and never again' }),
})

export const DeliveryView = Type.Object({
  id: Type.String({ format: 'uuid', description: 'Sent as X-Sluice-Delivery, the same at every attempt' }),
  webhook_id: Uuid,
  event: Type.Enum([...RUN_EVENTS, 'test']),
  payload: Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true }),
  status: Type.Enum([...DELIVERY_STATUSES]),
  attempts: Type.Integer(),
  next_attempt_at: Nullable(Timestamp),
  response_status: Nullable(Type.Integer({ description: 'Of the last attempt that was answered' })),
  error: Nullable(Type.String({ description: 'Why the last attempt did not arrive' })),
  created_at: Timestamp,
  finished_at: Nullable(Timestamp),
})

export const DeliveryParams = Type.Object({ id: Uuid, delivery_id: Uuid })

export const WebhookList = Type.Object(OptionalPaging)
export const DeliveryList = Type.Object(Paging)
