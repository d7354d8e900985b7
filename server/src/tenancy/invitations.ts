/**
 * Invitations: pending → accepted, cancelled or expired. Only the SHA-256 of a token is stored. Every change of an
 * invitation starts from 'pending' while its row is locked, so a token works once.
 *
 * Inviting an address and joining with an account of that address take one lock per organization and address. Without
 * it a person could be invited between the check of the members and the moment they become one.
 */
import { randomBytes } from 'node:crypto'
import {
  type Database,
  isDatabaseError,
  lockForTransaction,
  type Queryable,
  sql,
  UNIQUE_VIOLATION,
} from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import { sha256 } from '../sha256.ts'
import type { Actor, RequestOrigin } from './actor.ts'
import { audit } from './audit.ts'
import { normalizeEmail } from './email.ts'
import { lockOwnRole } from './members.ts'
import type { Role } from './permissions.ts'

/** Nobody is invited as owner. */
export const INVITED_ROLES = ['admin', 'member', 'viewer'] as const
export type InvitedRole = (typeof INVITED_ROLES)[number]

export interface InvitationRow {
  id: string
  email: string
  role: InvitedRole
  invited_by_name: string | null
  expires_at: string
  created_at: string
}

export interface InvitationPreview {
  email: string
  role: InvitedRole
  organization_name: string
  invited_by_name: string | null
  expires_at: string
  is_expired: boolean
}

export interface InvitationSettings {
  FRONTEND_URL: string
  INVITATION_DAYS: number
}

const lockAddress = (tx: Queryable, organizationId: string, email: string) =>
  lockForTransaction(tx, JSON.stringify(['address', organizationId, email]))

export async function inviteMember(
  db: Database,
  { FRONTEND_URL, INVITATION_DAYS }: InvitationSettings,
  actor: Actor,
  input: { email: string; role: InvitedRole },
): Promise<InvitationRow & { invite_url: string }> {
  const email = normalizeEmail(input.email)
  const token = randomBytes(32).toString('base64url')
  const invitation = await db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'users:invite')
    await lockAddress(tx, actor.organization_id, email)
    await expireInvitations(tx, actor.organization_id, email)
    await refuseMember(tx, actor.organization_id, email)
    const row = await insertInvitation(tx, actor, { email, role: input.role, token, days: INVITATION_DAYS })
    await audit(tx, actor, 'invitation.created', {
      type: 'invitation',
      id: row.id,
      details: { email, role: input.role },
    })
    return row
  })
  return { ...invitation, invite_url: `${FRONTEND_URL}/accept-invitation?token=${token}` }
}

/** Expired ones are marked first, because the index allows one pending invitation per address. */
const expireInvitations = (tx: Queryable, organizationId: string, email: string): Promise<number> =>
  tx.execute(sql`
    UPDATE invitations SET status = 'expired', ended_at = expires_at
     WHERE organization_id = ${organizationId} AND email = ${email} AND status = 'pending' AND expires_at <= now()`)

async function refuseMember(tx: Queryable, organizationId: string, email: string): Promise<void> {
  const member = await tx.first(sql`
    SELECT 1 FROM users u JOIN memberships m ON m.user_id = u.id AND m.organization_id = ${organizationId} WHERE u.email = ${email}`)
  if (member) throw new AppError('conflict', `${email} is already a member of this organization`)
}

async function insertInvitation(
  tx: Queryable,
  actor: Actor,
  { email, role, token, days }: { email: string; role: InvitedRole; token: string; days: number },
): Promise<InvitationRow> {
  try {
    const row = await tx.first<Omit<InvitationRow, 'invited_by_name'>>(sql`
      INSERT INTO invitations (organization_id, email, role, token_hash, invited_by, expires_at)
      VALUES (${actor.organization_id}, ${email}, ${role}, ${sha256(token)}, ${actor.user_id}, now() + make_interval(days => ${days}))
      RETURNING id, email, role, expires_at, created_at`)
    return { ...row!, invited_by_name: actor.name }
  } catch (error) {
    if (isDatabaseError(error, UNIQUE_VIOLATION, 'invitations_pending_key'))
      throw new AppError('conflict', `An invitation for ${email} is already pending; cancel it to send another one`)
    throw error
  }
}

export function listInvitations(db: Queryable, actor: Actor, paging: Paging): Promise<Listed<InvitationRow>> {
  const pending = sql`i.organization_id = ${actor.organization_id} AND i.status = 'pending' AND i.expires_at > now()`
  return readList(
    db,
    paging,
    sql`
      SELECT i.id, i.email, i.role, u.name AS invited_by_name, i.expires_at, i.created_at FROM invitations i
        LEFT JOIN LATERAL (SELECT name FROM users WHERE id = i.invited_by LIMIT 1) u ON true
       WHERE ${pending} ORDER BY i.created_at DESC, i.id`,
    sql`SELECT 1 FROM invitations i WHERE ${pending}`,
  )
}

export async function previewInvitation(db: Queryable, token: string): Promise<InvitationPreview> {
  const row = await db.first<InvitationPreview & { status: Status }>(sql`
    SELECT i.email, i.role, i.status, o.name AS organization_name, u.name AS invited_by_name, i.expires_at, i.expires_at <= now() AS is_expired
      FROM invitations i JOIN organizations o ON o.id = i.organization_id LEFT JOIN users u ON u.id = i.invited_by
     WHERE i.token_hash = ${sha256(token)}`)
  if (!row) throw notFound('Invitation')
  const { status, ...preview } = row
  if (status === 'accepted' || status === 'cancelled') throw ended(status)
  return preview
}

type Status = 'pending' | 'accepted' | 'cancelled' | 'expired'

const ended = (status: Exclude<Status, 'pending'>, field = 'token') =>
  new AppError(
    'invalid_input',
    `${field}: this invitation ${{ accepted: 'was used', cancelled: 'was cancelled', expired: 'has expired' }[status]}; ask for a new one`,
  )

/** Throws unless an account may be created with the token: 404 if it is unknown, 400 if it was used or has ended. */
export async function requireOpenInvitation(
  db: Queryable,
  token: string,
  { field, opensAccount }: { field: string; opensAccount: boolean },
): Promise<void> {
  const row = await db.first<{ status: Status; is_expired: boolean; opened_account_id: string | null }>(sql`
    SELECT status, expires_at <= now() AS is_expired, opened_account_id FROM invitations WHERE token_hash = ${sha256(token)}`)
  if (!row) throw notFound('Invitation')
  if (row.status !== 'pending') throw ended(row.status, field)
  if (row.is_expired) throw ended('expired', field)
  if (opensAccount && row.opened_account_id !== null)
    throw new AppError(
      'invalid_input',
      `${field}: an account was already created with this invitation; sign in to it and accept the invitation there`,
    )
}

/** Records the one account that is created with the token. False if the token is not valid for that. */
export const openAccountByInvitation = async (tx: Queryable, token: string, userId: string): Promise<boolean> =>
  (await tx.execute(sql`
    UPDATE invitations SET opened_account_id = ${userId}
     WHERE token_hash = ${sha256(token)} AND status = 'pending' AND expires_at > now() AND opened_account_id IS NULL`)) ===
  1

/** Who joins: the holder of the token, no matter which address it was sent to. */
export interface Joiner {
  id: string
  email: string
  api_key_id?: string | null
}

/** Uses the token and makes its holder a member. If they are one already, the invitation stays pending. */
export async function joinByInvitation(
  tx: Queryable,
  joiner: Joiner,
  token: string,
  origin: RequestOrigin,
): Promise<{ organization_id: string; joined: boolean }> {
  const hash = sha256(token)
  const found = await tx.first<{ organization_id: string }>(
    sql`SELECT organization_id FROM invitations WHERE token_hash = ${hash}`,
  )
  if (!found) throw notFound('Invitation')
  const { organization_id } = found
  // The address is locked before the row, as in inviteMember: in the opposite order the two could deadlock.
  await lockAddress(tx, organization_id, joiner.email)
  const invitation = await tx.first<{ id: string; email: string; role: Role; status: Status; is_expired: boolean }>(sql`
    SELECT id, email, role, status, expires_at <= now() AS is_expired FROM invitations WHERE token_hash = ${hash} FOR UPDATE`)
  const { id, email, role, status, is_expired } = invitation!
  if (status !== 'pending') throw ended(status)
  if (is_expired) throw ended('expired')
  const joined = await tx.execute(sql`
    INSERT INTO memberships (organization_id, user_id, role) VALUES (${organization_id}, ${joiner.id}, ${role}) ON CONFLICT DO NOTHING`)
  if (joined === 0) return { organization_id, joined: false }
  await tx.execute(
    sql`UPDATE invitations SET status = 'accepted', accepted_by = ${joiner.id}, ended_at = now() WHERE id = ${id}`,
  )
  const actor = {
    ...origin,
    user_id: joiner.id,
    email: joiner.email,
    organization_id,
    api_key_id: joiner.api_key_id ?? null,
  }
  const details = { invited: email, accepted_by: joiner.email, role }
  await audit(tx, actor, 'invitation.accepted', { type: 'invitation', id, details })
  return { organization_id, joined: true }
}

export async function cancelInvitation(db: Database, actor: Actor, id: string): Promise<void> {
  await db.transaction(async (tx) => {
    await lockOwnRole(tx, actor, 'users:invite')
    const row = await tx.first<{ email: string }>(sql`
      UPDATE invitations SET status = 'cancelled', ended_at = now()
       WHERE id = ${id} AND organization_id = ${actor.organization_id} AND status = 'pending' AND expires_at > now() RETURNING email`)
    if (!row) throw notFound('Invitation')
    await audit(tx, actor, 'invitation.cancelled', { type: 'invitation', id, details: { email: row.email } })
  })
}
