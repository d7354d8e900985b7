import { Type } from '../../schema.ts'
import { ListOf } from '../total-count.ts'
import { Nullable, Paging, Since, Timestamp, Until, Uuid } from './common.ts'

export const AuditQuery = Type.Object({
  actor_id: Type.Optional(Uuid),
  action: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'Such as `member.removed`' })),
  object_type: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'Such as `membership`' })),
  object_id: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  since: Type.Optional(Since),
  until: Type.Optional(Until),
  before: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Only lines older than this one: the `id` of the last line of the previous page',
    }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, description: '100 unless given; at most 1000. As CSV: all unless given' }),
  ),
  offset: Paging.offset,
  format: Type.Optional(Type.Enum(['json', 'csv'])),
})

export const AuditLine = Type.Object({
  id: Type.Integer(),
  at: Timestamp,
  actor_id: Nullable(Uuid),
  actor_email: Nullable(Type.String()),
  api_key_id: Nullable(Uuid),
  action: Type.String(),
  object_type: Type.String(),
  object_id: Nullable(Type.String()),
  details: Type.Object({}, { additionalProperties: true }),
  request_id: Nullable(Type.String()),
  client_address: Nullable(Type.String()),
})

const { headers, ...lines } = ListOf(AuditLine)
/** Two forms of one answer; Fastify serialises by the content type that the handler sets. */
export const AuditAnswer = {
  description: 'Lines of the audit log',
  headers,
  content: { 'application/json': { schema: lines }, 'text/csv': { schema: Type.String() } },
}
