/** The organization itself: its name, and who owns it. */

import { type Database, sql } from '../database/database.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from './actor.ts'
import { audit } from './audit.ts'
import { lockMembers } from './members.ts'

export interface OrganizationRow {
  id: string
  name: string
  slug: string
}

export const readOrganization = (actor: Actor): OrganizationRow => ({
  id: actor.organization_id,
  name: actor.organization_name,
  slug: actor.organization_slug,
})

export async function renameOrganization(
  db: Database,
  actor: Actor,
  input: { name: string },
): Promise<OrganizationRow> {
  return db.transaction(async (tx) => {
    const row = await tx.first<OrganizationRow>(sql`
      UPDATE organizations SET name = ${input.name.trim()}, updated_at = now() WHERE id = ${actor.organization_id} RETURNING id, name, slug`)
    await audit(tx, actor, 'organization.renamed', {
      type: 'organization',
      id: actor.organization_id,
      details: { from: actor.organization_name, to: row!.name },
    })
    return row!
  })
}

/** The old owner becomes an admin and the new one the owner, in one transaction. */
export async function transferOwnership(db: Database, actor: Actor, newOwnerId: string): Promise<{ message: string }> {
  const userId = newOwnerId.toLowerCase()
  return db.transaction(async (tx) => {
    const members = await lockMembers(tx, actor.organization_id, [actor.user_id, userId])
    const newOwner = members.get(userId)
    if (!newOwner) throw notFound('Member')
    if (members.get(actor.user_id)?.role !== 'owner')
      throw new AppError('forbidden', 'Only the owner can transfer the ownership')
    if (userId === actor.user_id)
      throw new AppError('invalid_input', 'user_id: you already own this organization; name another member')
    await tx.execute(
      sql`UPDATE memberships SET role = 'admin' WHERE organization_id = ${actor.organization_id} AND user_id = ${actor.user_id}`,
    )
    await tx.execute(
      sql`UPDATE memberships SET role = 'owner' WHERE organization_id = ${actor.organization_id} AND user_id = ${userId}`,
    )
    await audit(tx, actor, 'organization.transferred', {
      type: 'organization',
      id: actor.organization_id,
      details: { to: newOwner.email },
    })
    return { message: `${newOwner.name} is now the owner` }
  })
}
