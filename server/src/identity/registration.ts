/**
 * Registering with a password. Anybody may ask for it, so everything that is cheap to check is checked before a hash is
 * computed, and the transaction decides once more.
 */
import { type Database, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { RequestOrigin } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { normalizeEmail } from '../tenancy/email.ts'
import { ADDRESS_TAKEN, createOrganization, createUser, requirePendingInvitation } from './accounts.ts'
import { networkOf } from './client-network.ts'
import { hashPassword, registerQueue, requireStrongPassword } from './passwords.ts'
import { countRegistration, countTakenAddress } from './registration-attempts.ts'
import { type AuthenticationResult, openSession } from './sessions.ts'
import type { Tokens } from './tokens.ts'

export interface Registration {
  email: string
  password: string
  name: string
  organization_name: string
}

export async function register(
  db: Database,
  tokens: Tokens,
  signup: 'open' | 'invited',
  input: Registration,
  origin: RequestOrigin,
): Promise<AuthenticationResult> {
  requireStrongPassword(input.password)
  const email = normalizeEmail(input.email)
  const client = networkOf(origin.client_address)
  await countRegistration(db, client)
  try {
    if (signup === 'invited') await requirePendingInvitation(db, email)
    if (await db.first(sql`SELECT 1 FROM users WHERE email = ${email}`)) throw new AppError('conflict', ADDRESS_TAKEN)
    const passwordHash = await hashPassword(registerQueue, client, input.password)
    return await db.transaction(async (tx) => {
      if (signup === 'invited') await requirePendingInvitation(tx, email)
      const user = await createUser(tx, {
        email,
        name: input.name.trim(),
        password_hash: passwordHash,
        avatar_url: null,
      })
      const organization = await createOrganization(tx, user, input.organization_name, origin)
      await audit(
        tx,
        { ...origin, user_id: user.id, email, organization_id: organization.id, api_key_id: null },
        'user.registered',
        { type: 'user', id: user.id },
      )
      return openSession(tx, tokens, user.id, organization.id)
    })
  } catch (error) {
    if (error instanceof AppError && error.code === 'conflict') await countTakenAddress(db, client)
    throw error
  }
}
