/**
 * Registering with a password. Anybody may ask for it, so everything that is cheap to check is checked before a hash is
 * computed, and the transaction decides once more. With an invitation the new account joins the organization that sent
 * it; without one it gets an organization of its own.
 */
import { type Database, type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { RequestOrigin } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { normalizeEmail } from '../tenancy/email.ts'
import { joinByInvitation, requireOpenInvitation } from '../tenancy/invitations.ts'
import { ADDRESS_TAKEN, createOrganization, createUser } from './accounts.ts'
import { networkOf } from './client-network.ts'
import { hashPassword, registerQueue, requireStrongPassword } from './passwords.ts'
import { countRegistration, countTakenAddress } from './registration-attempts.ts'
import { type AuthenticationResult, openSession } from './sessions.ts'
import type { Tokens } from './tokens.ts'

export interface Registration {
  email: string
  password: string
  name: string
  /** Ignored with an invitation. */
  organization_name?: string
  invitation_token?: string
}

export type Signup = 'open' | 'invited'

export async function register(
  { db, tokens, signup }: { db: Database; tokens: Tokens; signup: Signup },
  input: Registration,
  origin: RequestOrigin,
): Promise<AuthenticationResult> {
  requireStrongPassword(input.password)
  const choice = chooseOrganization(signup, input)
  const email = normalizeEmail(input.email)
  const client = networkOf(origin.client_address)
  await countRegistration(db, client)
  const requireOpen = async (tx: Queryable) => {
    if ('invitation' in choice)
      await requireOpenInvitation(tx, choice.invitation, {
        field: 'invitation_token',
        opensAccount: signup === 'invited',
      })
  }
  try {
    await requireOpen(db)
    if (await db.first(sql`SELECT 1 FROM users WHERE email = ${email}`)) throw new AppError('conflict', ADDRESS_TAKEN)
    const password_hash = await hashPassword(registerQueue, client, input.password)
    return await db.transaction(async (tx) => {
      await requireOpen(tx)
      const name = input.name.trim()
      const user = await createUser(tx, { email, name, password_hash, avatar_url: null, email_verified: false })
      const organizationId = await enterOrganization(tx, choice, user, origin)
      const actor = { ...origin, user_id: user.id, email, organization_id: organizationId, api_key_id: null }
      await audit(tx, actor, 'user.registered', { type: 'user', id: user.id })
      return openSession(tx, tokens, { user_id: user.id, organization_id: organizationId, origin })
    })
  } catch (error) {
    if (error instanceof AppError && error.code === 'conflict') await countTakenAddress(db, client)
    throw error
  }
}

type OrganizationChoice = { invitation: string } | { organization_name: string }

function chooseOrganization(signup: Signup, { invitation_token, organization_name }: Registration): OrganizationChoice {
  if (invitation_token !== undefined) return { invitation: invitation_token }
  if (signup === 'invited')
    throw new AppError(
      'forbidden',
      'Registration is by invitation only; open the link of your invitation, or ask an admin of an organization for one',
    )
  if (organization_name === undefined)
    throw new AppError('invalid_input', 'organization_name: this field is required without an invitation_token')
  return { organization_name }
}

/** The id of the organization that the new account belongs to. */
async function enterOrganization(
  tx: Queryable,
  choice: OrganizationChoice,
  user: { id: string; email: string },
  origin: RequestOrigin,
): Promise<string> {
  if ('invitation' in choice) return (await joinByInvitation(tx, user, choice.invitation, origin)).organization_id
  return (await createOrganization(tx, user, choice.organization_name, origin)).id
}
