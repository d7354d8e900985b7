/** Domain roles: a higher role inside one domain. They only add permissions, and only those that concern a domain. */

import { type Database, isDatabaseError, type Queryable, raw, sql, UNIQUE_VIOLATION } from '../database/database.ts'
import { COUNTED_AT_MOST, type Listed } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from './actor.ts'
import { audit } from './audit.ts'
import { lockMembers, lockOwnRole, readMember, requireRole } from './members.ts'
import { inVisibleDomain } from './visibility.ts'

export interface DomainRoleRow {
  id: string
  user_id: string
  domain_id: string
  domain_name: string
  role: 'admin' | 'member'
  created_at: string
}

const DOMAIN_ID = raw('r.domain_id')

export const listDomainRoles = (db: Queryable, actor: Actor, userId: string): Promise<DomainRoleRow[]> =>
  db.query(sql`
    SELECT r.id, r.user_id, r.domain_id, d.name AS domain_name, r.role, r.created_at
      FROM domain_roles r JOIN domains d ON d.organization_id = r.organization_id AND d.id = r.domain_id
     WHERE r.organization_id = ${actor.organization_id} AND r.user_id = ${userId}${inVisibleDomain(actor, DOMAIN_ID)}
     ORDER BY r.created_at DESC, r.id`)

export async function listMemberDomainRoles(
  db: Queryable,
  actor: Actor,
  userId: string,
): Promise<Listed<DomainRoleRow>> {
  await readMember(db, actor, userId)
  const rows = await listDomainRoles(db, actor, userId)
  return { rows, total: Math.min(rows.length, COUNTED_AT_MOST) }
}

export async function grantDomainRole(
  db: Database,
  actor: Actor,
  userId: string,
  input: { domain_id: string; role: DomainRoleRow['role'] },
): Promise<DomainRoleRow> {
  const { role } = input
  const domainId = input.domain_id.toLowerCase()
  return db.transaction(async (tx) => {
    const members = await lockMembers(tx, actor.organization_id, [actor.user_id, userId])
    if (!members.has(userId)) throw notFound('Member')
    const domain = await tx.first<{ name: string }>(
      sql`SELECT name FROM domains WHERE id = ${domainId} AND organization_id = ${actor.organization_id} FOR SHARE`,
    )
    if (!domain) throw notFound('Domain')
    const ownRole = requireRole(members.get(actor.user_id), actor, 'users:manage_roles')
    if (role === 'admin' && ownRole !== 'owner')
      throw new AppError('forbidden', 'Only the owner can grant the admin role in a domain')
    const row = await insertDomainRole(tx, actor, { user_id: userId, domain_id: domainId, role })
    await audit(tx, actor, 'domain_role.granted', {
      type: 'domain_role',
      id: row.id,
      details: { user_id: userId, domain_id: domainId, domain: domain.name, role },
    })
    return {
      id: row.id,
      user_id: userId,
      domain_id: domainId,
      domain_name: domain.name,
      role,
      created_at: row.created_at,
    }
  })
}

async function insertDomainRole(
  tx: Queryable,
  actor: Actor,
  { user_id, domain_id, role }: { user_id: string; domain_id: string; role: string },
): Promise<{ id: string; created_at: string }> {
  try {
    const row = await tx.first<{ id: string; created_at: string }>(sql`
      INSERT INTO domain_roles (organization_id, user_id, domain_id, role) VALUES (${actor.organization_id}, ${user_id}, ${domain_id}, ${role})
      RETURNING id, created_at`)
    return row!
  } catch (error) {
    if (isDatabaseError(error, UNIQUE_VIOLATION))
      throw new AppError('conflict', 'This member already has a role in this domain; remove it first')
    throw error
  }
}

export async function revokeDomainRole(db: Database, actor: Actor, userId: string, domainId: string): Promise<void> {
  await db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'users:manage_roles')
    const row = await tx.first<{ id: string; role: string }>(sql`
      DELETE FROM domain_roles WHERE organization_id = ${actor.organization_id} AND user_id = ${userId} AND domain_id = ${domainId} RETURNING id, role`)
    if (!row) throw notFound('Domain role')
    await audit(tx, actor, 'domain_role.revoked', {
      type: 'domain_role',
      id: row.id,
      details: { user_id: userId, domain_id: domainId, role: row.role },
    })
  })
}
