/** What the operator of the machine does to accounts and organizations, without being a member of any. */
import { type Database, type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { RequestOrigin } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { normalizeEmail } from '../tenancy/email.ts'
import { createOrganization, createUser } from './accounts.ts'
import { hashPassword, registerQueue, requireStrongPassword } from './passwords.ts'
import { closeOtherSessions } from './sessions.ts'

const ORIGIN: RequestOrigin = { request_id: 'command line', client_address: 'local' }
const OPERATOR = { user_id: null, email: 'operator', organization_id: null, api_key_id: null, ...ORIGIN }

export interface OrganizationLine {
  id: string
  slug: string
  name: string
  owner: string | null
  members: number
  pipelines: number
  created_at: string
}

export const listAllOrganizations = (db: Queryable): Promise<OrganizationLine[]> =>
  db.query(sql`
    SELECT o.id, o.slug, o.name, o.created_at,
           (SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.organization_id = o.id AND m.role = 'owner') AS owner,
           (SELECT count(*) FROM memberships m WHERE m.organization_id = o.id) AS members,
           (SELECT count(*) FROM pipelines p WHERE p.organization_id = o.id) AS pipelines
      FROM organizations o ORDER BY o.created_at, o.id`)

export interface UserLine {
  id: string
  email: string
  name: string
  /** `role in slug`, for each organization. */
  roles: string[]
  has_password: boolean
  last_used_at: string | null
  created_at: string
}

export async function listAllUsers(db: Queryable, slug: string | null): Promise<UserLine[]> {
  if (slug !== null && !(await db.first(sql`SELECT 1 FROM organizations WHERE slug = ${slug}`)))
    throw new AppError('not_found', `There is no organization ${slug}; sluice admin organizations lists them`)
  return db.query(sql`
    SELECT u.id, u.email, u.name, u.created_at, u.password_hash IS NOT NULL AS has_password,
           coalesce((SELECT array_agg(m.role || ' in ' || o.slug ORDER BY o.slug) FROM memberships m JOIN organizations o ON o.id = m.organization_id
                      WHERE m.user_id = u.id), '{}') AS roles,
           (SELECT max(s.last_used_at) FROM sessions s WHERE s.user_id = u.id) AS last_used_at
      FROM users u
     WHERE ${slug}::text IS NULL OR EXISTS (
       SELECT 1 FROM memberships m JOIN organizations o ON o.id = m.organization_id WHERE m.user_id = u.id AND o.slug = ${slug})
     ORDER BY u.created_at, u.id`)
}

export interface NewOwner {
  email: string
  name: string
  organization_name: string
  password: string
}

/** Also while SIGNUP is `invited`, which leaves no other way to the first account. */
export async function createOwnerAccount(db: Database, input: NewOwner): Promise<{ slug: string }> {
  requireStrongPassword(input.password)
  const email = normalizeEmail(input.email)
  if (!/^[^\s@]+@[^\s@]+$/.test(email) || email.length > 254)
    throw new AppError('invalid_input', `${email} is not an email address`)
  const password_hash = await hashPassword(registerQueue, 'operator', input.password)
  return db.transaction(async (tx) => {
    const user = await createUser(tx, {
      email,
      name: input.name,
      password_hash,
      avatar_url: null,
      email_verified: false,
    })
    const { id } = await createOrganization(tx, user, input.organization_name, ORIGIN)
    await audit(tx, { ...OPERATOR, organization_id: id }, 'user.registered', { type: 'user', id: user.id })
    return (await tx.first<{ slug: string }>(sql`SELECT slug FROM organizations WHERE id = ${id}`))!
  })
}

/** Ends all sessions and API keys of an account, and of keys that were created with them. */
export async function revokeAccess(db: Database, emailInput: string): Promise<{ sessions: number; keys: number }> {
  const email = normalizeEmail(emailInput)
  return db.transaction(async (tx) => {
    const user = await tx.first<{ id: string }>(sql`SELECT id FROM users WHERE email = ${email} FOR NO KEY UPDATE`)
    if (!user) throw new AppError('not_found', `There is no account with the address ${email}`)
    const open = await tx.first<{ sessions: number }>(
      sql`SELECT count(*) AS sessions FROM sessions WHERE user_id = ${user.id} AND revoked_at IS NULL AND expires_at > now()`,
    )
    await closeOtherSessions(tx, user.id, null)
    const keys = await tx.query<{ id: string; name: string; organization_id: string }>(sql`
      WITH RECURSIVE line AS (
        SELECT id FROM api_keys WHERE created_by = ${user.id} AND revoked_at IS NULL
        UNION SELECT k.id FROM api_keys k JOIN line ON k.made_with = line.id)
      UPDATE api_keys SET revoked_at = now() WHERE id IN (SELECT id FROM line) AND revoked_at IS NULL RETURNING id, name, organization_id`)
    for (const { id, name, organization_id } of keys)
      await audit(tx, { ...OPERATOR, organization_id }, 'api_key.revoked', { type: 'api_key', id, details: { name } })
    await audit(tx, OPERATOR, 'user.access_revoked', { type: 'user', id: user.id })
    return { sessions: open!.sessions, keys: keys.length }
  })
}
