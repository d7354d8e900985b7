/**
 * Sessions: one per sign-in, in one organization, carried by a family of refresh tokens of which only the newest counts.
 *
 * A refresh token is used once. Presented again within 30 seconds it still works, for two tabs of a browser may race;
 * presented later it was stolen, by whoever came second, and the whole family ends.
 */
import { createHash } from 'node:crypto'
import type { Database } from '../database/database.ts'
import { type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { RequestOrigin } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import type { Role } from '../tenancy/permissions.ts'
import type { Tokens } from './tokens.ts'

const RACE_GRACE_SECONDS = 30

export interface AuthenticationResult {
  access_token: string
  refresh_token: string
  token_type: 'bearer'
  expires_in: number
  user: { id: string; email: string; name: string; role: Role }
  organization: { id: string; name: string; slug: string }
}

/** Of a session `s`: it was not ended, nor was the key that opened it, if one did. */
const sessionStands = sql`s.revoked_at IS NULL AND (s.api_key_id IS NULL OR EXISTS (
  SELECT 1 FROM api_keys k WHERE k.id = s.api_key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())))`

const hashToken = (token: string) => createHash('sha256').update(token).digest()

/**
 * Opens a session in an organization the user belongs to and remembers it as the one used last. A session that an API
 * key opened is no way past the key's limits: it ends with the key, and what is closed to keys stays closed to it.
 */
export async function openSession(
  tx: Queryable,
  tokens: Tokens,
  userId: string,
  organizationId: string,
  apiKeyId: string | null = null,
): Promise<AuthenticationResult> {
  const session = await tx.first<{ id: string }>(sql`
    INSERT INTO sessions (user_id, organization_id, api_key_id, expires_at)
    VALUES (${userId}, ${organizationId}, ${apiKeyId}, now() + make_interval(secs => ${tokens.sessionSeconds})) RETURNING id`)
  await tx.execute(sql`UPDATE users SET last_organization_id = ${organizationId} WHERE id = ${userId}`)
  return issueTokens(tx, tokens, session!.id, userId, organizationId)
}

async function issueTokens(
  tx: Queryable,
  tokens: Tokens,
  sid: string,
  userId: string,
  organizationId: string,
): Promise<AuthenticationResult> {
  const [access_token, refresh_token] = await Promise.all([
    tokens.signAccess({ sub: userId, org: organizationId, sid }),
    tokens.signRefresh({ sub: userId, sid }),
  ])
  await tx.execute(
    sql`INSERT INTO refresh_tokens (token_hash, session_id) VALUES (${hashToken(refresh_token)}, ${sid})`,
  )
  const holder = await tx.first<{
    id: string
    email: string
    name: string
    role: Role
    organization_id: string
    organization_name: string
    slug: string
  }>(sql`
    SELECT u.id, u.email, u.name, m.role, o.id AS organization_id, o.name AS organization_name, o.slug
      FROM memberships m JOIN users u ON u.id = m.user_id JOIN organizations o ON o.id = m.organization_id
     WHERE m.user_id = ${userId} AND m.organization_id = ${organizationId}`)
  if (!holder) throw new AppError('unauthenticated', 'You are no longer a member of this organization; sign in again')
  const { organization_id, organization_name, slug, ...user } = holder
  return {
    access_token,
    refresh_token,
    token_type: 'bearer',
    expires_in: tokens.accessSeconds,
    user,
    organization: { id: organization_id, name: organization_name, slug },
  }
}

export async function refreshSession(
  db: Database,
  tokens: Tokens,
  refreshToken: string,
  origin: RequestOrigin,
): Promise<AuthenticationResult> {
  const refused = new AppError('unauthenticated', 'The refresh token is not valid or no longer valid; sign in again')
  const claims = await tokens.verifyRefresh(refreshToken)
  if (!claims) throw refused
  // A replay must end the family although the caller is refused, so the refusal comes after the commit.
  const result = await db.transaction(async (tx) => {
    const token = await tx.first<{
      session_id: string
      user_id: string
      organization_id: string
      late: boolean
      alive: boolean
    }>(sql`
      SELECT t.session_id, s.user_id, s.organization_id, s.expires_at > now() AND ${sessionStands} AS alive,
             coalesce(t.used_at < now() - make_interval(secs => ${RACE_GRACE_SECONDS}), false) AS late
        FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id
       WHERE t.token_hash = ${hashToken(refreshToken)} AND s.id = ${claims.sid} FOR UPDATE`)
    if (!token?.alive) return null
    if (token.late) {
      await tx.execute(sql`UPDATE sessions SET revoked_at = now() WHERE id = ${token.session_id}`)
      const actor = {
        ...origin,
        user_id: token.user_id,
        email: null,
        organization_id: token.organization_id,
        api_key_id: null,
      }
      await audit(tx, actor, 'session.replayed', { type: 'session', id: token.session_id })
      return null
    }
    const member = await tx.first(
      sql`SELECT 1 FROM memberships WHERE organization_id = ${token.organization_id} AND user_id = ${token.user_id}`,
    )
    if (!member) return null
    await tx.execute(
      sql`UPDATE refresh_tokens SET used_at = coalesce(used_at, now()) WHERE token_hash = ${hashToken(refreshToken)}`,
    )
    await tx.execute(
      sql`UPDATE sessions SET expires_at = now() + make_interval(secs => ${tokens.sessionSeconds}) WHERE id = ${token.session_id}`,
    )
    return issueTokens(tx, tokens, token.session_id, token.user_id, token.organization_id)
  })
  if (!result) throw refused
  return result
}

export async function closeSession(
  db: Database,
  actor: Parameters<typeof audit>[1] & { user_id: string; session_id: string | null },
): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.execute(sql`UPDATE sessions SET revoked_at = coalesce(revoked_at, now()) WHERE id = ${actor.session_id}`)
    await forgetLinks(tx, actor.user_id)
    await audit(tx, actor, 'session.closed', { type: 'session', id: actor.session_id })
  })
}

/** Ends every session of a user but one: after a password change, whoever else is signed in has to sign in again. */
export async function closeOtherSessions(tx: Queryable, userId: string, keep: string | null): Promise<void> {
  await tx.execute(
    sql`UPDATE sessions SET revoked_at = now() WHERE user_id = ${userId} AND revoked_at IS NULL AND id IS DISTINCT FROM ${keep}`,
  )
  await forgetLinks(tx, userId)
}

/** A link to the identity provider that was begun by a session must not be completed after its end. */
const forgetLinks = (tx: Queryable, userId: string): Promise<number> =>
  tx.execute(sql`DELETE FROM idp_states WHERE link_user_id = ${userId}`)

/** Removes what can never be used again. */
export async function forgetEndedSessions(db: Queryable): Promise<void> {
  await db.execute(sql`DELETE FROM sessions WHERE expires_at < now() - interval '1 day'`)
  await db.execute(sql`DELETE FROM login_attempts WHERE window_start < now() - interval '1 hour'`)
  await db.execute(sql`DELETE FROM idp_states WHERE expires_at < now()`)
  await db.execute(sql`DELETE FROM output_tickets WHERE expires_at < now()`)
}
