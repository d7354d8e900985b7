/**
 * API keys: `svc_live_`, 32 random URL-safe characters, and 3 characters of checksum, 44 in all. The checksum lets a
 * mistyped key be refused without a database query. Only the SHA-256 is stored: the key is random enough that nothing
 * slower is needed, and one index look-up finds it. A key may do what its creator may do at the moment of the request,
 * within the limits of its own scope.
 */
import { randomBytes } from 'node:crypto'
import { type Database, lockForTransaction, type Queryable, sql } from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import { sha256 } from '../sha256.ts'
import type { Actor } from './actor.ts'
import { audit } from './audit.ts'
import { chooseScope, type WantedScope } from './key-scope.ts'
import { lockOwnRole } from './members.ts'
import { type KeyScope, lesserRole, type Role, rank } from './permissions.ts'

export const KEY_PREFIX = 'svc_live_'
const SHAPE = /^svc_live_[A-Za-z0-9_-]{35}$/
const PREFIX_SHOWN = 12
export const KEY_LIFETIMES = [30, 90, 180, 365] as const

const checksum = (body: string) => sha256(body).toString('base64url').slice(0, 3)

export function makeApiKey(): string {
  const body = KEY_PREFIX + randomBytes(24).toString('base64url')
  return body + checksum(body)
}

export const hasValidChecksum = (key: string): boolean =>
  SHAPE.test(key) && checksum(key.slice(0, -3)) === key.slice(-3)

type ActorOfKey = Omit<Actor, 'session_id' | 'request_id' | 'client_address' | 'api_key_id'> & { api_key_id: string }

/** The actor of a key, or null. Role and domain roles are the current ones of its creator. */
export async function findApiKey(db: Queryable, key: string): Promise<ActorOfKey | null> {
  if (!hasValidChecksum(key)) return null
  const row = await db.first<
    Omit<ActorOfKey, 'scope' | 'domain_roles'> & { scopes: KeyScope; domain_roles: Record<string, Role> | null }
  >(sql`
    SELECT k.id AS api_key_id, k.scopes, u.id AS user_id, u.email, u.name, u.avatar_url, u.created_at, u.password_hash IS NOT NULL AS has_password,
           EXISTS (SELECT 1 FROM user_identities i WHERE i.user_id = u.id) AS idp_linked,
           o.id AS organization_id, o.name AS organization_name, o.slug AS organization_slug, m.role,
           (SELECT jsonb_object_agg(d.domain_id, d.role) FROM domain_roles d WHERE d.organization_id = m.organization_id AND d.user_id = m.user_id) AS domain_roles
      FROM api_keys k
      JOIN memberships m ON m.user_id = k.created_by AND m.organization_id = k.organization_id
      JOIN users u ON u.id = k.created_by
      JOIN organizations o ON o.id = k.organization_id
     WHERE k.key_hash = ${sha256(key)} AND ${keyIsValid}`)
  if (!row) return null
  const { scopes, ...actor } = row
  return { ...actor, role: lesserRole(row.role, scopes.role), domain_roles: row.domain_roles ?? {}, scope: scopes }
}

/** Of a key `k`: it was not revoked and has not expired. */
export const keyIsValid = sql`k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`

/** The limits of the key that opened a session; null if the key, and so the session, has ended. */
export const findKeyScope = async (db: Queryable, keyId: string): Promise<KeyScope | null> =>
  (await db.first<{ scopes: KeyScope }>(sql`SELECT k.scopes FROM api_keys k WHERE k.id = ${keyId} AND ${keyIsValid}`))
    ?.scopes ?? null

export interface ApiKeyRow {
  id: string
  name: string
  key_prefix: string
  scopes: KeyScope
  last_used_at: string | null
  expires_at: string | null
  created_at: string
  created_by: string
  created_by_name: string
}

export function listApiKeys(db: Queryable, actor: Actor, paging: Paging): Promise<Listed<ApiKeyRow>> {
  const standing = sql`k.organization_id = ${actor.organization_id} AND k.revoked_at IS NULL`
  return readList(
    db,
    paging,
    sql`
      SELECT k.id, k.name, k.key_prefix, k.scopes, k.last_used_at, k.expires_at, k.created_at, k.created_by, u.name AS created_by_name
        FROM api_keys k JOIN LATERAL (SELECT name FROM users WHERE id = k.created_by LIMIT 1) u ON true
       WHERE ${standing} ORDER BY k.created_at DESC, k.id`,
    sql`SELECT 1 FROM api_keys k WHERE ${standing}`,
  )
}

export interface NewApiKey {
  id: string
  name: string
  key: string
  key_prefix: string
  expires_at: string | null
  created_at: string
}

export interface ApiKeyInput extends WantedScope {
  name: string
  expires_in_days: number | null
}

/** A key that is created with a key has at most its limits, expires no later, and is revoked with it. */
export async function createApiKey(db: Database, actor: Actor, input: ApiKeyInput): Promise<NewApiKey> {
  if (actor.api_key_id !== null && actor.session_id !== null)
    throw new AppError('forbidden', 'A session that an API key opened cannot create API keys; sign in as a person')
  const key = makeApiKey()
  return db.transaction(async (tx) => {
    const role = await lockOwnRole(tx, actor, 'api_keys:write')
    const scope = await chooseScope(tx, { ...actor, role }, input)
    const latest = actor.api_key_id === null ? null : await lockParent(tx, actor, actor.api_key_id)
    const row = await tx.first<Omit<NewApiKey, 'key'>>(sql`
      INSERT INTO api_keys (organization_id, created_by, name, key_prefix, key_hash, scopes, made_with, expires_at)
      VALUES (${actor.organization_id}, ${actor.user_id}, ${input.name.trim()}, ${key.slice(0, PREFIX_SHOWN)}, ${sha256(key)},
              ${JSON.stringify(scope)}, ${actor.api_key_id},
              least(now() + make_interval(days => ${input.expires_in_days}), ${latest}::timestamptz))
      RETURNING id, name, key_prefix, expires_at, created_at`)
    await audit(tx, actor, 'api_key.created', {
      type: 'api_key',
      id: row!.id,
      details: { name: row!.name, scopes: { ...scope } },
    })
    return { ...row!, key }
  })
}

/** Keys that were created with each other have the same creator; one lock serializes changes to them. */
const lockKeysOf = (tx: Queryable, organizationId: string, creatorId: string) =>
  lockForTransaction(tx, JSON.stringify(['api keys', organizationId, creatorId]))

/** When the parent key expires. It may have been revoked since the request was authenticated. */
async function lockParent(tx: Queryable, actor: Actor, keyId: string): Promise<string | null> {
  await lockKeysOf(tx, actor.organization_id, actor.user_id)
  const parent = await tx.first<{ expires_at: string | null }>(
    sql`SELECT k.expires_at FROM api_keys k WHERE k.id = ${keyId} AND ${keyIsValid}`,
  )
  if (!parent) throw new AppError('unauthenticated', 'The API key has expired or was revoked')
  return parent.expires_at
}

/** Members revoke their own keys, admins and owners any. Keys that were created with it are revoked too. */
export async function revokeApiKey(db: Database, actor: Actor, id: string): Promise<void> {
  await db.transaction(async (tx) => {
    const role = await lockOwnRole(tx, actor, 'api_keys:write')
    const key = await tx.first<{ created_by: string }>(sql`
      SELECT created_by FROM api_keys WHERE id = ${id} AND organization_id = ${actor.organization_id} AND revoked_at IS NULL`)
    if (!key) throw notFound('API key')
    if (key.created_by !== actor.user_id && rank(role) < rank('admin'))
      throw new AppError('forbidden', 'Members may revoke only their own API keys; ask an admin')
    await lockKeysOf(tx, actor.organization_id, key.created_by)
    const revoked = await tx.query<{ id: string; name: string }>(sql`
      WITH RECURSIVE line AS (
        SELECT id FROM api_keys WHERE id = ${id} AND revoked_at IS NULL
        UNION ALL SELECT k.id FROM api_keys k JOIN line ON k.made_with = line.id)
      UPDATE api_keys SET revoked_at = now() WHERE id IN (SELECT id FROM line) AND revoked_at IS NULL RETURNING id, name`)
    if (revoked.length === 0) throw notFound('API key')
    for (const { id: revokedId, name } of revoked)
      await audit(tx, actor, 'api_key.revoked', { type: 'api_key', id: revokedId, details: { name } })
  })
}
