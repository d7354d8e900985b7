import { Type } from '../../schema.ts'
import { Email, Name, Nullable, RoleName, Timestamp, Uuid } from './common.ts'

const Password = Type.String({ minLength: 1, maxLength: 1000 })

export const Register = Type.Object({
  email: Email,
  password: Password,
  name: Name,
  organization_name: Type.Optional(
    Type.String({ ...Name, description: 'Required without `invitation_token`, ignored with it' }),
  ),
  invitation_token: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'Joins the organization that sent the invitation, with the invited role',
    }),
  ),
})
export const Login = Type.Object({ email: Type.String({ minLength: 1, maxLength: 254 }), password: Password })
export const Refresh = Type.Object({ refresh_token: Type.String({ minLength: 1, maxLength: 4000 }) })
export const ChangePassword = Type.Object({ current_password: Password, new_password: Password })
export const Switch = Type.Object({ organization_id: Uuid })

export const OrganizationView = Type.Object({ id: Uuid, name: Type.String(), slug: Type.String() })
export const UpdateOrganization = Type.Object({ name: Name })

export const AuthenticationResult = Type.Object({
  access_token: Type.String(),
  refresh_token: Type.String(),
  user: Type.Object({ id: Uuid, email: Type.String(), name: Type.String(), role: RoleName }),
  organization: OrganizationView,
})
/** What login, refresh and switch answer. */
export const SignedIn = Type.Object({
  ...AuthenticationResult.properties,
  token_type: Type.Literal('bearer'),
  expires_in: Type.Integer({ description: 'Seconds until the access token expires' }),
})

export const DomainRoleView = Type.Object({
  id: Uuid,
  user_id: Uuid,
  domain_id: Uuid,
  domain_name: Type.String(),
  role: Type.Enum(['admin', 'member']),
  created_at: Timestamp,
})

export const Me = Type.Object({
  id: Uuid,
  email: Type.String(),
  name: Type.String(),
  avatar_url: Nullable(Type.String()),
  role: RoleName,
  organization: OrganizationView,
  permissions: Type.Array(Type.String()),
  has_password: Type.Boolean(),
  idp_linked: Type.Boolean(),
  domain_roles: Type.Array(DomainRoleView),
  created_at: Timestamp,
})

export const UpdateMe = Type.Object({ name: Name })

export const SessionView = Type.Object({
  id: Uuid,
  organization: Type.Object({ id: Uuid, name: Type.String() }),
  created_at: Timestamp,
  last_used_at: Timestamp,
  expires_at: Timestamp,
  client_address: Nullable(Type.String({ description: 'Where it was opened from' })),
  user_agent: Nullable(Type.String({ description: 'The User-Agent header of the client that opened it' })),
  current: Type.Boolean({ description: 'The session of this request' }),
})

export const MyOrganization = Type.Object({
  id: Uuid,
  name: Type.String(),
  slug: Type.String(),
  role: RoleName,
  joined_at: Timestamp,
})
