import { Type } from '../../schema.ts'
import { KEY_LIFETIMES } from '../../tenancy/api-keys.ts'
import { domainPermissions, keyPermissions } from '../../tenancy/permissions.ts'
import { Name, Nullable, OptionalPaging, RoleName, Timestamp, Uuid } from './common.ts'

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
  role: Type.Optional(
    Type.Enum(RoleName.enum, { description: 'The key has at most this role. It cannot be higher than your own' }),
  ),
  scopes: Type.Optional(
    Type.Object(
      {
        permissions: Type.Array(Type.Enum(keyPermissions), {
          minItems: 1,
          uniqueItems: true,
          description: 'Everything the key may do; you must have each of these permissions yourself',
        }),
        domain_id: Type.Optional(
          Type.String({
            format: 'uuid',
            description: `The key reaches only this domain and its pipelines. Allowed with ${domainPermissions.join(', ')}`,
          }),
        ),
      },
      { additionalProperties: false },
    ),
  ),
})

export const CreatedApiKey = Type.Object({
  id: Uuid,
  name: Type.String(),
  key: Type.String({ description: 'The whole key, shown only here' }),
  key_prefix: KeyPrefix,
  expires_at: ExpiresAt,
  created_at: Timestamp,
})

export const ApiKeyItem = Type.Object({
  id: Uuid,
  name: Type.String(),
  key_prefix: KeyPrefix,
  scopes: Type.Object(
    {
      role: Type.Optional(RoleName),
      permissions: Type.Optional(Type.Array(Type.Enum(keyPermissions))),
      domain_id: Type.Optional(Uuid),
    },
    { description: 'The limits of the key; empty if it may do everything that its creator may do' },
  ),
  last_used_at: Nullable(Timestamp),
  expires_at: ExpiresAt,
  created_at: Timestamp,
  created_by: Uuid,
  created_by_name: Type.String(),
})

export const ApiKeyList = Type.Object(OptionalPaging)
export const ApiKeyParams = Type.Object({ key_id: Uuid })
