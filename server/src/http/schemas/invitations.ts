import { Type } from '../../schema.ts'
import { INVITED_ROLES } from '../../tenancy/invitations.ts'
import { AuthenticationResult } from './auth.ts'
import { Email, Nullable, OptionalPaging, RoleName, Timestamp, Uuid } from './common.ts'

export const InvitedRole = Type.Enum([...INVITED_ROLES])
const Token = Type.String({ minLength: 1, maxLength: 200 })

export const Invite = Type.Object({ email: Email, role: InvitedRole })
export const InvitationToken = Type.Object({ token: Token })

const fields = {
  id: Uuid,
  email: Type.String(),
  role: InvitedRole,
  invited_by_name: Nullable(Type.String()),
  expires_at: Timestamp,
  created_at: Timestamp,
}
export const InvitationItem = Type.Object(fields)
export const CreatedInvitation = Type.Object({
  ...fields,
  invite_url: Type.String({ description: 'The link to send to them; its token is shown only here' }),
})
export const InvitationPreview = Type.Object({
  email: Type.String(),
  role: InvitedRole,
  organization_name: Type.String(),
  invited_by_name: Nullable(Type.String()),
  expires_at: Timestamp,
  is_expired: Type.Boolean(),
})
export const Acceptance = Type.Object({
  message: Type.String(),
  organization_name: Type.String(),
  role: RoleName,
  ...AuthenticationResult.properties,
})

export const InvitationList = Type.Object(OptionalPaging)
export const InvitationParams = Type.Object({ invitation_id: Uuid })
