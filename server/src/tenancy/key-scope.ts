/** The limits of a new API key: never more than its creator may do, whether that is a person or another key. */
import { type Queryable, sql } from '../database/database.ts'
import { AppError, notFound } from '../errors.ts'
import { can, domainPermissions, type KeyScope, type Permission, type Powers, type Role, rank } from './permissions.ts'

export interface WantedScope {
  role?: Role | undefined
  scopes?: { permissions: Permission[]; domain_id?: string } | undefined
}

export async function chooseScope(
  tx: Queryable,
  maker: Powers & { organization_id: string },
  { role, scopes }: WantedScope,
): Promise<KeyScope> {
  if (role !== undefined && rank(role) > rank(maker.role))
    throw new AppError('forbidden', `role: ${role} is above your own role, ${maker.role}`)
  const domainId = scopes?.domain_id?.toLowerCase() ?? null
  if (domainId !== null) await requireDomain(tx, maker.organization_id, domainId)
  for (const permission of scopes?.permissions ?? []) {
    if (domainId !== null && !domainPermissions.includes(permission))
      throw new AppError(
        'invalid_input',
        `scopes.permissions: ${permission} concerns the whole organization; with a domain_id a key can have ${domainPermissions.join(', ')}`,
      )
    if (!can(maker, permission, domainId))
      throw new AppError('forbidden', `scopes.permissions: you do not have ${permission} yourself`)
  }
  // A key that creates another one passes its own limits on.
  const limits: KeyScope = { ...maker.scope }
  if (role !== undefined) limits.role = role
  if (scopes !== undefined) limits.permissions = scopes.permissions
  if (domainId !== null) limits.domain_id = domainId
  return limits
}

async function requireDomain(tx: Queryable, organizationId: string, id: string): Promise<void> {
  const domain = await tx.first(sql`SELECT 1 FROM domains WHERE id = ${id} AND organization_id = ${organizationId}`)
  if (!domain) throw notFound('Domain')
}
