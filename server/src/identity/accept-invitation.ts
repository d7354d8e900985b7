/** Accepting an invitation: the holder of the token joins, and gets tokens for the joined organization. */
import type { Database } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { joinByInvitation } from '../tenancy/invitations.ts'
import type { Role } from '../tenancy/permissions.ts'
import { type AuthenticationResult, openSession } from './sessions.ts'
import type { Tokens } from './tokens.ts'

export interface Acceptance extends AuthenticationResult {
  message: string
  organization_name: string
  role: Role
}

export async function acceptInvitation(db: Database, tokens: Tokens, actor: Actor, token: string): Promise<Acceptance> {
  const { user_id, email, api_key_id, request_id, client_address } = actor
  return db.transaction(async (tx) => {
    const origin = { request_id, client_address }
    const { organization_id, joined } = await joinByInvitation(tx, { id: user_id, email, api_key_id }, token, origin)
    if (!joined) throw new AppError('conflict', 'You are already a member of this organization')
    const result = await openSession(tx, tokens, { user_id, organization_id, api_key_id, origin: actor })
    const { organization, user } = result
    return {
      message: `You are now a member of ${organization.name}`,
      organization_name: organization.name,
      role: user.role,
      ...result,
    }
  })
}
