/** Who is asking: a person in one organization, signed in or by API key, with the request they came with. */
import { AppError } from '../errors.ts'
import { can, type Permission, type Role } from './permissions.ts'

export interface RequestOrigin {
  request_id: string
  client_address: string
}

export interface Actor extends RequestOrigin {
  user_id: string
  email: string
  name: string
  avatar_url: string | null
  has_password: boolean
  idp_linked: boolean
  created_at: string
  organization_id: string
  organization_name: string
  organization_slug: string
  role: Role
  domain_roles: Record<string, Role>
  session_id: string | null
  api_key_id: string | null
}

/** What the functions of the product need of it; the scheduler acts with this too. */
export type Principal = Pick<
  Actor,
  'user_id' | 'email' | 'organization_id' | 'role' | 'domain_roles' | 'session_id' | 'api_key_id'
> &
  RequestOrigin

export function requirePermission(
  actor: Pick<Actor, 'role' | 'domain_roles'>,
  permission: Permission,
  domainId: string | null = null,
): void {
  if (!can(actor, permission, domainId)) throw forbidden(permission)
}

export const forbidden = (permission: Permission) =>
  new AppError('forbidden', `You do not have the permission ${permission}; ask an admin of your organization`)
