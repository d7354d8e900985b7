import { Type } from '../../schema.ts'
import { Nullable, OptionalPaging, RoleName, Timestamp, Uuid } from './common.ts'

const fields = { id: Uuid, email: Type.String(), name: Type.String() }

export const MemberView = Type.Object({
  ...fields,
  avatar_url: Nullable(Type.String()),
  role: RoleName,
  joined_at: Timestamp,
})
export const MemberRole = Type.Object({ ...fields, role: RoleName, joined_at: Timestamp })
export const UpdateRole = Type.Object({ role: RoleName })

export const MemberList = Type.Object(OptionalPaging)
export const MemberParams = Type.Object({ user_id: Uuid })
