import { Type } from 'typebox'
import { KEY_LIFETIMES } from '../../tenancy/api-keys.ts'
import { Name, Nullable, OptionalPaging, Timestamp, Uuid } from './common.ts'

const KeyPrefix = Type.String({ description: 'The first 12 characters of the key' })
const ExpiresAt = Nullable(Type.String({ format: 'date-time', description: 'Null: never' }))

export const CreateApiKey = Type.Object({
  name: Name,
  expires_in_days: Type.Optional(
    Type.Unsafe<(typeof KEY_LIFETIMES)[number] | null>({
      type: ['integer', 'null'],
      enum: [...KEY_LIFETIMES, null],
      description: 'Null or absent: never expires',
    }),
  ),
})

export const CreatedApiKey = Type.Object({
  id: Uuid,
  name: Type.String(),
  key: Type.String({ description: 'The whole key: shown here and never again' }),
  key_prefix: KeyPrefix,
  expires_at: ExpiresAt,
  created_at: Timestamp,
})

export const ApiKeyItem = Type.Object({
  id: Uuid,
  name: Type.String(),
  key_prefix: KeyPrefix,
  scopes: Type.Object({}, { additionalProperties: true }),
  last_used_at: Nullable(Timestamp),
  expires_at: ExpiresAt,
  created_at: Timestamp,
  created_by_name: Type.String(),
})

export const ApiKeyList = Type.Object(OptionalPaging)
export const ApiKeyParams = Type.Object({ key_id: Uuid })
