/** Accounts: create them, sign in, change the password, move between one's organizations. */
import { randomInt } from 'node:crypto'
import { type Database, isDatabaseError, type Queryable, sql, UNIQUE_VIOLATION } from '../database/database.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor, RequestOrigin } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { normalizeEmail } from '../tenancy/email.ts'
import type { Role } from '../tenancy/permissions.ts'
import { networkOf } from './client-network.ts'
import { addressKey, checkPassword } from './login-attempts.ts'
import { hashPassword, requireStrongPassword, signInQueue } from './passwords.ts'
import { type AuthenticationResult, closeOtherSessions, openSession } from './sessions.ts'
import type { Tokens } from './tokens.ts'

export const ADDRESS_TAKEN = 'This email address already has an account; sign in instead'

interface NewUser {
  email: string
  name: string
  password_hash: string | null
  avatar_url: string | null
  /** Whether a provider has proven that the address is theirs. */
  email_verified: boolean
}

export async function createUser(tx: Queryable, user: NewUser): Promise<{ id: string; email: string; name: string }> {
  try {
    const row = await tx.first<{ id: string }>(sql`
      INSERT INTO users (email, name, password_hash, avatar_url, email_verified_at)
      VALUES (${user.email}, ${user.name}, ${user.password_hash}, ${user.avatar_url},
              CASE WHEN ${user.email_verified} THEN now() END) RETURNING id`)
    return { id: row!.id, email: user.email, name: user.name }
  } catch (error) {
    if (isDatabaseError(error, UNIQUE_VIOLATION, 'users_email_key')) throw new AppError('conflict', ADDRESS_TAKEN)
    throw error
  }
}

export async function createOrganization(
  tx: Queryable,
  owner: { id: string; email: string },
  name: string,
  origin: RequestOrigin,
): Promise<{ id: string }> {
  const trimmed = name.trim()
  const organization = await tx.first<{ id: string }>(
    sql`INSERT INTO organizations (name, slug) VALUES (${trimmed}, ${makeSlug(trimmed)}) RETURNING id`,
  )
  await tx.execute(
    sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${organization!.id}, ${owner.id}, 'owner')`,
  )
  const actor = {
    ...origin,
    user_id: owner.id,
    email: owner.email,
    organization_id: organization!.id,
    api_key_id: null,
  }
  await audit(tx, actor, 'organization.created', {
    type: 'organization',
    id: organization!.id,
    details: { name: trimmed },
  })
  return organization!
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** The name in lower case with dashes, and six random characters to make it unique. */
export function makeSlug(name: string): string {
  const base = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 50)
  const tail = Array.from({ length: 6 }, () => LETTERS[randomInt(LETTERS.length)]).join('')
  return `${base || 'organization'}-${tail}`
}

export async function login(
  db: Database,
  tokens: Tokens,
  input: { email: string; password: string },
  origin: RequestOrigin,
): Promise<AuthenticationResult> {
  const email = normalizeEmail(input.email)
  const user = await db.first<{ id: string; name: string; password_hash: string | null }>(
    sql`SELECT id, name, password_hash FROM users WHERE email = ${email}`,
  )
  const { client_address } = origin
  const guess = { email, client_address, password: input.password, password_hash: user?.password_hash ?? null }
  if (!(await checkPassword(db, guess)) || !user)
    throw new AppError('unauthenticated', 'The email address or the password is wrong')
  return db.transaction((tx) => openLastOrganization(tx, tokens, { ...user, email }, origin))
}

/** Opens the organization used last. Somebody who was removed from every organization gets a new one of their own. */
export async function openLastOrganization(
  tx: Queryable,
  tokens: Tokens,
  user: { id: string; email: string; name: string },
  origin: RequestOrigin,
): Promise<AuthenticationResult> {
  const last = await tx.first<{ id: string }>(sql`
    SELECT m.organization_id AS id FROM memberships m JOIN users u ON u.id = m.user_id
     WHERE m.user_id = ${user.id} ORDER BY (m.organization_id = u.last_organization_id) DESC NULLS LAST, m.joined_at LIMIT 1 FOR SHARE OF m`)
  const organization = last ?? (await createOrganization(tx, user, `${user.name}'s organization`, origin))
  const result = await openSession(tx, tokens, { user_id: user.id, organization_id: organization.id, origin })
  const actor = { ...origin, user_id: user.id, email: user.email, organization_id: organization.id, api_key_id: null }
  await audit(tx, actor, 'session.opened', { type: 'user', id: user.id })
  return result
}

export async function changePassword(
  db: Database,
  actor: Actor,
  input: { current_password: string; new_password: string },
): Promise<{ message: string }> {
  requireStrongPassword(input.new_password, 'new_password')
  const user = await db.first<{ password_hash: string | null }>(
    sql`SELECT password_hash FROM users WHERE id = ${actor.user_id}`,
  )
  const { email, client_address } = actor
  const guess = { email, client_address, password: input.current_password, password_hash: user?.password_hash ?? null }
  if (!(await checkPassword(db, guess)))
    throw new AppError('invalid_input', 'current_password: this is not your current password')
  const passwordHash = await hashPassword(signInQueue, networkOf(client_address), input.new_password)
  await db.transaction(async (tx) => {
    // Compared with the hash that was verified, so that only one of two concurrent changes wins.
    const changed = await tx.execute(sql`
      UPDATE users SET password_hash = ${passwordHash}, updated_at = now() WHERE id = ${actor.user_id} AND password_hash = ${user!.password_hash}`)
    if (changed === 0)
      throw new AppError('conflict', 'The password was changed by another request at the same time; sign in again')
    await closeOtherSessions(tx, actor.user_id, actor.session_id)
    await audit(tx, actor, 'user.password_changed', { type: 'user', id: actor.user_id })
  })
  return { message: 'Password changed; all other sessions were signed out' }
}

/** The name as it is stored. */
export async function renameUser(db: Database, actor: Actor, name: string): Promise<string> {
  const trimmed = name.trim()
  await db.transaction(async (tx) => {
    await tx.execute(sql`UPDATE users SET name = ${trimmed}, updated_at = now() WHERE id = ${actor.user_id}`)
    await audit(tx, actor, 'user.renamed', {
      type: 'user',
      id: actor.user_id,
      details: { from: actor.name, to: trimmed },
    })
  })
  return trimmed
}

/**
 * For the operator only: users belong to several organizations, so no admin may take over an account. If nobody has proven
 * the address, the linked identity may be that of a stranger who registered it, so it goes too.
 */
export async function resetPassword(db: Database, emailInput: string, password: string): Promise<void> {
  requireStrongPassword(password)
  const email = normalizeEmail(emailInput)
  const passwordHash = await hashPassword(signInQueue, 'operator', password)
  await db.transaction(async (tx) => {
    const user = await tx.first<{ id: string; is_proven: boolean }>(sql`
      UPDATE users SET password_hash = ${passwordHash}, updated_at = now() WHERE email = ${email}
      RETURNING id, email_verified_at IS NOT NULL AS is_proven`)
    if (!user) throw new AppError('not_found', `There is no account with the address ${email}`)
    await closeOtherSessions(tx, user.id, null)
    if (!user.is_proven) await tx.execute(sql`DELETE FROM user_identities WHERE user_id = ${user.id}`)
    await tx.execute(sql`DELETE FROM login_attempts WHERE key = ${addressKey(email)}`)
    const operator = {
      user_id: null,
      email: 'operator',
      organization_id: null,
      api_key_id: null,
      request_id: 'command line',
      client_address: 'local',
    }
    await audit(tx, operator, 'user.password_reset', { type: 'user', id: user.id })
  })
}

export interface MyOrganization {
  id: string
  name: string
  slug: string
  role: Role
  joined_at: string
}

export const listMyOrganizations = (db: Queryable, userId: string): Promise<MyOrganization[]> =>
  db.query(sql`
    SELECT o.id, o.name, o.slug, m.role, m.joined_at FROM memberships m JOIN organizations o ON o.id = m.organization_id
     WHERE m.user_id = ${userId} ORDER BY m.joined_at DESC, o.id`)

export async function switchOrganization(
  db: Database,
  tokens: Tokens,
  actor: Actor,
  organizationId: string,
): Promise<AuthenticationResult> {
  return db.transaction(async (tx) => {
    const member = await tx.first(
      sql`SELECT 1 FROM memberships WHERE user_id = ${actor.user_id} AND organization_id = ${organizationId} FOR SHARE`,
    )
    if (!member) throw notFound('Organization')
    await audit(tx, { ...actor, organization_id: organizationId }, 'session.opened', {
      type: 'user',
      id: actor.user_id,
      details: { switched: true },
    })
    return openSession(tx, tokens, { user_id: actor.user_id, organization_id: organizationId, origin: actor })
  })
}
