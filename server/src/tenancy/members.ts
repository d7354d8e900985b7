/**
 * Members and their roles. Every change first locks the memberships of everybody involved, always in the same order, and
 * then decides: two admins who act on each other at the same time are handled one after the other.
 */

import { type Database, type Queryable, sql } from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from './actor.ts'
import { forbidden } from './actor.ts'
import { audit } from './audit.ts'
import { can, lesserRole, type Permission, type Role } from './permissions.ts'
import { cancelSentInvitations } from './sent-invitations.ts'

export interface MemberRow {
  id: string
  email: string
  name: string
  avatar_url: string | null
  role: Role
  joined_at: string
}

// One index look-up per member: with many members PostgreSQL would read all users of all organizations for a plain join.
const member = sql`
  SELECT u.id, u.email, u.name, u.avatar_url, m.role, m.joined_at FROM memberships m
    JOIN LATERAL (SELECT id, email, name, avatar_url FROM users WHERE id = m.user_id LIMIT 1) u ON true`

export const listMembers = (db: Queryable, actor: Actor, paging: Paging): Promise<Listed<MemberRow>> =>
  readList(
    db,
    paging,
    sql`${member} WHERE m.organization_id = ${actor.organization_id} ORDER BY m.joined_at DESC, m.user_id`,
    sql`SELECT 1 FROM memberships WHERE organization_id = ${actor.organization_id}`,
  )

export async function readMember(db: Queryable, actor: Actor, userId: string): Promise<MemberRow> {
  const row = await db.first<MemberRow>(
    sql`${member} WHERE m.organization_id = ${actor.organization_id} AND m.user_id = ${userId}`,
  )
  if (!row) throw notFound('Member')
  return row
}

/** Locks memberships in the order of their user ids, so that two changes cannot deadlock. */
export async function lockMembers(
  tx: Queryable,
  organizationId: string,
  userIds: string[],
): Promise<Map<string, MemberRow>> {
  const rows = await tx.query<MemberRow>(sql`
    ${member} WHERE m.organization_id = ${organizationId} AND m.user_id = ANY (${userIds}::uuid[]) ORDER BY m.user_id FOR UPDATE OF m`)
  return new Map(rows.map((row) => [row.id, row]))
}

/**
 * Checks the permission again inside the transaction and locks the role until its end, so that nobody changes anything
 * after they were demoted or removed. Returns the role, or that of the API key if it is lower.
 */
export async function lockOwnRole(tx: Queryable, actor: Actor, permission: Permission): Promise<Role> {
  const own = await tx.first<{ role: Role }>(sql`
    SELECT role FROM memberships WHERE organization_id = ${actor.organization_id} AND user_id = ${actor.user_id} FOR SHARE`)
  return requireRole(own, actor, permission)
}

/** For what concerns the whole organization: roles in domains do not count. */
export function requireRole(
  own: { role: Role } | null | undefined,
  actor: Pick<Actor, 'scope'>,
  permission: Permission,
): Role {
  const { scope } = actor
  if (!own || !can({ role: own.role, domain_roles: {}, scope }, permission)) throw forbidden(permission, actor)
  return lesserRole(own.role, scope?.role)
}

export async function updateMemberRole(
  db: Database,
  actor: Actor,
  userId: string,
  role: Role,
): Promise<Omit<MemberRow, 'avatar_url'>> {
  if (role === 'owner')
    throw new AppError(
      'invalid_input',
      'role: owner cannot be assigned; transfer the ownership instead (POST /api/organization/transfer-ownership)',
    )
  return db.transaction(async (tx) => {
    const target = await lockTarget(tx, actor, userId, 'change the role of')
    if (!can({ role, domain_roles: {}, scope: null }, 'users:invite'))
      await cancelSentInvitations(tx, actor, userId, 'the inviter was demoted')
    await tx.execute(
      sql`UPDATE memberships SET role = ${role} WHERE organization_id = ${actor.organization_id} AND user_id = ${userId}`,
    )
    await audit(tx, actor, 'member.role_changed', {
      type: 'membership',
      id: userId,
      details: { from: target.role, to: role, email: target.email },
    })
    return { id: target.id, email: target.email, name: target.name, role, joined_at: target.joined_at }
  })
}

/** Sessions, keys and sent invitations end with the membership, so they do not work again after a later invitation. */
export async function removeMember(db: Database, actor: Actor, userId: string): Promise<void> {
  await db.transaction(async (tx) => {
    const target = await lockTarget(tx, actor, userId, 'remove')
    // Before the membership is deleted, because somebody who accepts one at this moment holds its row and would wait for us.
    await cancelSentInvitations(tx, actor, userId, 'the inviter was removed')
    await tx.execute(
      sql`DELETE FROM memberships WHERE organization_id = ${actor.organization_id} AND user_id = ${userId}`,
    )
    await tx.execute(
      sql`UPDATE sessions SET revoked_at = now() WHERE organization_id = ${actor.organization_id} AND user_id = ${userId} AND revoked_at IS NULL`,
    )
    await tx.execute(
      sql`UPDATE api_keys SET revoked_at = now() WHERE organization_id = ${actor.organization_id} AND created_by = ${userId} AND revoked_at IS NULL`,
    )
    await audit(tx, actor, 'member.removed', {
      type: 'membership',
      id: userId,
      details: { role: target.role, email: target.email },
    })
  })
}

/** Who may act on whom: nobody on the owner, and no admin on another admin. */
async function lockTarget(tx: Queryable, actor: Actor, userId: string, verb: string): Promise<MemberRow> {
  const members = await lockMembers(tx, actor.organization_id, [actor.user_id, userId])
  const target = members.get(userId)
  // The actor's own role may have changed since the request was authenticated.
  const role = requireRole(members.get(actor.user_id), actor, 'users:manage_roles')
  if (!target) throw notFound('Member')
  if (target.role === 'owner')
    throw new AppError('forbidden', `You cannot ${verb} the owner; transfer the ownership first`)
  if (target.role === 'admin' && role === 'admin' && userId !== actor.user_id)
    throw new AppError('forbidden', `An admin cannot ${verb} another admin; ask the owner`)
  return target
}
