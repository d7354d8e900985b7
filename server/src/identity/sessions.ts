/**
 * Sessions: one per sign-in, in one organization, carried by a family of refresh tokens of which only the newest counts.
 *
 * A refresh token is used once. Presented again within 30 seconds it still works, because two tabs of a browser may race:
 * both get a successor, and the first successor that is used ends the other one and their parent. A token that comes back
 * later than that has been stolen, so the whole family ends.
 */
import type { Database } from '../database/database.ts'
import { type Queryable, sql } from '../database/database.ts'
import { AppError, notFound } from '../errors.ts'
import { sha256 } from '../sha256.ts'
import type { Actor, RequestOrigin } from '../tenancy/actor.ts'
import { keyIsValid } from '../tenancy/api-keys.ts'
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

/** Of a session `s`: neither the session nor the API key that opened it, if any, has ended. */
const sessionIsValid = sql`s.revoked_at IS NULL AND (s.api_key_id IS NULL OR EXISTS (
  SELECT 1 FROM api_keys k WHERE k.id = s.api_key_id AND ${keyIsValid}))`

export interface NewSession {
  user_id: string
  organization_id: string
  /** A session that an API key opened ends with the key and may do no more than the key. */
  api_key_id?: string | null
  origin?: RequestOrigin
}

const LONGEST_USER_AGENT = 300

/**
 * Opens a session in an organization the user belongs to, and records it as the organization used last. The membership
 * stays locked until the commit: whoever removes the member waits, and then ends this session too.
 */
export async function openSession(tx: Queryable, tokens: Tokens, opened: NewSession): Promise<AuthenticationResult> {
  const { user_id, organization_id, api_key_id = null, origin } = opened
  const session = await tx.first<{ id: string }>(sql`
    INSERT INTO sessions (user_id, organization_id, api_key_id, client_address, user_agent, expires_at)
    SELECT m.user_id, m.organization_id, ${api_key_id}::uuid, ${origin?.client_address ?? null}::text,
           ${origin?.user_agent?.slice(0, LONGEST_USER_AGENT) ?? null}::text,
           now() + make_interval(secs => ${tokens.sessionSeconds})
      FROM memberships m WHERE m.user_id = ${user_id} AND m.organization_id = ${organization_id} FOR SHARE RETURNING id`)
  if (!session) throw noLongerMember()
  await tx.execute(sql`UPDATE users SET last_organization_id = ${organization_id} WHERE id = ${user_id}`)
  return issueTokens(tx, tokens, { session_id: session.id, user_id, organization_id })
}

const noLongerMember = () =>
  new AppError('unauthenticated', 'You are no longer a member of this organization; sign in again')

interface Issue {
  session_id: string
  user_id: string
  organization_id: string
  /** The refresh token that these replace. */
  parent_hash?: Buffer
}

async function issueTokens(tx: Queryable, tokens: Tokens, issue: Issue): Promise<AuthenticationResult> {
  const { session_id: sid, user_id: userId, organization_id: organizationId, parent_hash = null } = issue
  const [access_token, refresh_token] = await Promise.all([
    tokens.signAccess({ sub: userId, org: organizationId, sid }),
    tokens.signRefresh({ sub: userId, sid }),
  ])
  await tx.execute(sql`
    INSERT INTO refresh_tokens (token_hash, session_id, parent_hash) VALUES (${sha256(refresh_token)}, ${sid}, ${parent_hash})`)
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
  if (!holder) throw noLongerMember()
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
  // A replay must end the family even though the caller is refused, so the error is thrown after the commit.
  const result = await db.transaction(async (tx) => {
    const token = await lockToken(tx, sha256(refreshToken), claims.sid)
    if (!token?.alive) return null
    if (token.replayed) {
      await tx.execute(sql`UPDATE sessions SET revoked_at = now() WHERE id = ${token.session_id}`)
      const { user_id, organization_id } = token
      const actor = { ...origin, user_id, email: null, organization_id, api_key_id: null }
      await audit(tx, actor, 'session.replayed', { type: 'session', id: token.session_id })
      return null
    }
    return token.superseded ? null : exchangeToken(tx, tokens, token)
  })
  if (!result) throw refused
  return result
}

interface LockedToken {
  token_hash: Buffer
  parent_hash: Buffer | null
  session_id: string
  user_id: string
  organization_id: string
  /** The session has not ended. */
  alive: boolean
  /** A sibling or a successor was used. */
  superseded: boolean
  /** Used or superseded longer ago than two tabs may race. */
  replayed: boolean
}

/**
 * Locks the session, so that only one request at a time handles a family of tokens. Whoever removes the member waits for
 * this lock as well. So the membership is not locked here: that would be the opposite order of locks, and a deadlock.
 */
async function lockToken(tx: Queryable, tokenHash: Buffer, sessionId: string): Promise<LockedToken | null> {
  await tx.execute(sql`SELECT 1 FROM sessions WHERE id = ${sessionId} FOR UPDATE`)
  return tx.first(sql`
    SELECT t.token_hash, t.parent_hash, t.session_id, s.user_id, s.organization_id,
           s.expires_at > now() AND ${sessionIsValid} AS alive, t.superseded_at IS NOT NULL AS superseded,
           coalesce(least(t.used_at, t.superseded_at) < now() - make_interval(secs => ${RACE_GRACE_SECONDS}), false) AS replayed
      FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id
     WHERE t.token_hash = ${tokenHash} AND s.id = ${sessionId}`)
}

async function exchangeToken(
  tx: Queryable,
  tokens: Tokens,
  { token_hash, parent_hash, session_id, user_id, organization_id }: LockedToken,
): Promise<AuthenticationResult | null> {
  const member = await tx.first(
    sql`SELECT 1 FROM memberships WHERE organization_id = ${organization_id} AND user_id = ${user_id}`,
  )
  if (!member) return null
  await tx.execute(sql`UPDATE refresh_tokens SET used_at = coalesce(used_at, now()) WHERE token_hash = ${token_hash}`)
  await tx.execute(sql`
    UPDATE refresh_tokens SET superseded_at = now()
     WHERE session_id = ${session_id} AND superseded_at IS NULL AND token_hash <> ${token_hash}
       AND (token_hash = ${parent_hash} OR parent_hash = ${parent_hash})`)
  await tx.execute(sql`
    UPDATE sessions SET last_used_at = now(), expires_at = now() + make_interval(secs => ${tokens.sessionSeconds}) WHERE id = ${session_id}`)
  return issueTokens(tx, tokens, { session_id, user_id, organization_id, parent_hash: token_hash })
}

export interface SessionRow {
  id: string
  organization: { id: string; name: string }
  created_at: string
  last_used_at: string
  expires_at: string
  client_address: string | null
  user_agent: string | null
  /** The session of this request. */
  current: boolean
}

/** The open sessions of a person in all their organizations, the one used last first. */
export const listSessions = (db: Queryable, actor: Pick<Actor, 'user_id' | 'session_id'>): Promise<SessionRow[]> =>
  db.query(sql`
    SELECT s.id, jsonb_build_object('id', o.id, 'name', o.name) AS organization, s.created_at, s.last_used_at, s.expires_at,
           s.client_address, s.user_agent, s.id = ${actor.session_id} AS current
      FROM sessions s JOIN organizations o ON o.id = s.organization_id
      JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = s.user_id
     WHERE s.user_id = ${actor.user_id} AND s.expires_at > now() AND ${sessionIsValid}
     ORDER BY s.last_used_at DESC, s.id LIMIT ${MAX_LISTED}`)

/** Somebody who signs in with a script every minute has thousands of sessions. */
const MAX_LISTED = 1000

/** Ends one of the person's own sessions. */
export async function endSession(db: Database, actor: Actor, id: string): Promise<void> {
  await db.transaction(async (tx) => {
    const ended = await tx.execute(sql`
      UPDATE sessions s SET revoked_at = now()
       WHERE s.id = ${id} AND s.user_id = ${actor.user_id} AND s.expires_at > now() AND ${sessionIsValid}`)
    if (ended === 0) throw notFound('Session')
    await forgetLinks(tx, actor.user_id)
    await audit(tx, actor, 'session.closed', { type: 'session', id })
  })
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

/** Ends all sessions of a user except one, after a password change for example. */
export async function closeOtherSessions(tx: Queryable, userId: string, keep: string | null): Promise<void> {
  await tx.execute(
    sql`UPDATE sessions SET revoked_at = now() WHERE user_id = ${userId} AND revoked_at IS NULL AND id IS DISTINCT FROM ${keep}`,
  )
  await forgetLinks(tx, userId)
}

/** A link to the identity provider that a session started must not be completed after the session has ended. */
const forgetLinks = (tx: Queryable, userId: string): Promise<number> =>
  tx.execute(sql`DELETE FROM idp_states WHERE link_user_id = ${userId}`)
