/**
 * Who a session belongs to, with everything that decides what they may do. It is read with every request, so it is as
 * cheap as it can be: what the token already says is not asked for again, and the key that opened the session is read
 * only for the few sessions that have one.
 */
import { type Queryable, sql } from '../database/database.ts'
import type { Actor, RequestOrigin } from '../tenancy/actor.ts'
import { findKeyScope } from '../tenancy/api-keys.ts'
import { lesserRole, type Role } from '../tenancy/permissions.ts'
import type { AccessClaims } from './tokens.ts'

type SessionRow = Omit<
  Actor,
  'session_id' | 'user_id' | 'organization_id' | 'domain_roles' | 'scope' | keyof RequestOrigin
> & {
  /** `domain_id role` each: an array costs the database less than an object. */
  domain_roles: string[]
}

/** Null if the session, the membership or the key that opened the session is gone. */
export async function findSessionActor(
  db: Queryable,
  { sid, org, sub }: AccessClaims,
): Promise<Omit<Actor, keyof RequestOrigin> | null> {
  const row = await db.first<SessionRow>(sql`
    SELECT s.api_key_id, u.email, u.name, u.avatar_url, u.created_at, u.password_hash IS NOT NULL AS has_password,
           EXISTS (SELECT 1 FROM user_identities i WHERE i.user_id = u.id) AS idp_linked,
           o.name AS organization_name, o.slug AS organization_slug, m.role,
           ARRAY(SELECT d.domain_id || ' ' || d.role FROM domain_roles d
                  WHERE d.organization_id = m.organization_id AND d.user_id = m.user_id) AS domain_roles
      FROM sessions s
      JOIN memberships m ON m.user_id = s.user_id AND m.organization_id = s.organization_id
      JOIN users u ON u.id = s.user_id
      JOIN organizations o ON o.id = s.organization_id
     WHERE s.id = ${sid} AND s.organization_id = ${org} AND s.user_id = ${sub} AND s.revoked_at IS NULL`)
  if (!row) return null
  const scope = row.api_key_id === null ? null : await findKeyScope(db, row.api_key_id)
  if (row.api_key_id !== null && scope === null) return null
  return {
    ...row,
    role: lesserRole(row.role, scope?.role),
    scope,
    session_id: sid,
    user_id: sub,
    organization_id: org,
    domain_roles: Object.fromEntries(row.domain_roles.map((pair) => pair.split(' ') as [string, Role])),
  }
}
