/** Who sends a request: a person in one organization, signed in or with an API key. */
import { AppError } from '../errors.ts'
import { can, type KeyScope, type Permission, type Powers, type Role } from './permissions.ts'

export interface RequestOrigin {
  request_id: string
  client_address: string
  /** The User-Agent header, kept with the sessions that the request opens. */
  user_agent?: string | undefined
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
  /** The key that was used, or that opened the session. */
  api_key_id: string | null
  /** Null if and only if api_key_id is null. */
  scope: KeyScope | null
}

export function requirePermission(actor: Powers, permission: Permission, domainId: string | null = null): void {
  if (!can(actor, permission, domainId)) throw forbidden(permission, actor)
}

export const forbidden = (permission: Permission, { scope }: Pick<Powers, 'scope'>) =>
  new AppError(
    'forbidden',
    scope === null
      ? `You do not have the permission ${permission}; ask an admin of your organization`
      : `This API key does not have the permission ${permission} here: its scopes and the role of its creator must both include it`,
  )
