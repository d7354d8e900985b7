/**
 * Which account an identity opens. Issuer and subject decide. The email address counts only for an identity that is seen
 * for the first time, and only if the provider has verified it. Everything about one identity happens under one lock, so
 * two concurrent first sign-ins create one account.
 *
 * A sign-in never accepts an invitation: anybody can send anybody a link with a token in it, so the person is asked first.
 */

import { type Database, lockForTransaction, type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { Actor, RequestOrigin } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { openAccountByInvitation } from '../tenancy/invitations.ts'
import { createOrganization, createUser, openLastOrganization } from './accounts.ts'
import { SignInError } from './provider-errors.ts'
import type { Identity } from './provider-identity.ts'
import type { Signup } from './registration.ts'
import { type AuthenticationResult, closeOtherSessions } from './sessions.ts'
import type { Tokens } from './tokens.ts'

interface Account {
  id: string
  email: string
  name: string
}

export interface SignInRules {
  signup: Signup
  /** The invitation token that the sign-in started with. A new account needs one if SIGNUP is `invited`. */
  invitation: string | null
}

export async function signInWithIdentity(
  { db, tokens }: { db: Database; tokens: Tokens },
  identity: Identity,
  rules: SignInRules,
  origin: RequestOrigin,
): Promise<AuthenticationResult> {
  const attempt = () =>
    db.transaction(async (tx) =>
      openLastOrganization(tx, tokens, await findAccount(tx, identity, rules, origin), origin),
    )
  try {
    return await attempt()
  } catch (error) {
    // Somebody registered the same address in the meantime, so now there is an account to find.
    if (error instanceof AppError && error.code === 'conflict') return attempt()
    throw error
  }
}

async function findAccount(
  tx: Queryable,
  identity: Identity,
  rules: SignInRules,
  origin: RequestOrigin,
): Promise<Account> {
  await lockIdentity(tx, identity)
  return (
    (await findLinked(tx, identity)) ??
    (await linkByAddress(tx, identity, origin)) ??
    (await createAccount(tx, identity, rules, origin))
  )
}

const lockIdentity = (tx: Queryable, { issuer, subject }: Identity) =>
  lockForTransaction(tx, JSON.stringify(['identity', issuer, subject]))

/** Name and picture are copied from the provider at every sign-in, and a proof of the address is recorded. */
async function findLinked(tx: Queryable, identity: Identity): Promise<Account | null> {
  const linked = await tx.first<{ user_id: string }>(sql`
    UPDATE user_identities SET last_used_at = now(), email = ${identity.email}
     WHERE issuer = ${identity.issuer} AND subject = ${identity.subject} RETURNING user_id`)
  return linked && refreshProfile(tx, linked.user_id, identity)
}

const refreshProfile = (tx: Queryable, userId: string, identity: Identity): Promise<Account | null> =>
  tx.first(sql`
    UPDATE users SET name = coalesce(${identity.name}::text, name), avatar_url = ${identity.avatar_url}, updated_at = now(),
           email_verified_at = CASE WHEN ${identity.email_verified} AND email = ${identity.email} THEN coalesce(email_verified_at, now()) ELSE email_verified_at END
     WHERE id = ${userId} RETURNING id, email, name`)

async function linkByAddress(tx: Queryable, identity: Identity, origin: RequestOrigin): Promise<Account | null> {
  if (identity.email === null) throw new SignInError('email_missing')
  const account = await tx.first<{ id: string; organization_id: string | null; is_proven: boolean }>(sql`
    SELECT id, last_organization_id AS organization_id, email_verified_at IS NOT NULL AS is_proven
      FROM users WHERE email = ${identity.email} FOR UPDATE`)
  if (!account) return null
  if (!identity.email_verified) throw new SignInError('email_not_verified')
  // The address may have been given to another person since its proof, so a second identity never opens the account.
  if (account.is_proven && (await hasIdentity(tx, account.id))) throw new SignInError('already_linked')
  const actor = actorIn(account.organization_id, { id: account.id, email: identity.email }, origin)
  if (!account.is_proven) await removeUnproven(tx, actor)
  await addIdentity(tx, account.id, identity)
  const details = { issuer: identity.issuer, by: VERIFIED_ADDRESS }
  await audit(tx, actor, 'identity.linked', { type: 'user', id: account.id, details })
  return refreshProfile(tx, account.id, identity)
}

const VERIFIED_ADDRESS = 'verified address'

/**
 * Addresses are not verified at registration, and an account can be linked to an identity with any address. So password
 * and identity may be those of somebody else than the owner of the address, which the provider has now verified. Both are
 * removed, and all sessions end. Otherwise whoever registers an address first could lock its owner out.
 */
async function removeUnproven(tx: Queryable, actor: ReturnType<typeof actorIn>): Promise<void> {
  const { user_id } = actor
  const removed = await tx.first<{ had_password: boolean }>(sql`
    UPDATE users u SET password_hash = NULL, email_verified_at = now() FROM users old
     WHERE u.id = ${user_id} AND old.id = u.id RETURNING old.password_hash IS NOT NULL AS had_password`)
  await closeOtherSessions(tx, user_id, null)
  const subject = { type: 'user', id: user_id } as const
  if (removed!.had_password) await audit(tx, actor, 'user.password_removed', subject)
  if ((await removeIdentities(tx, user_id)) > 0)
    await audit(tx, actor, 'identity.unlinked', { ...subject, details: { by: VERIFIED_ADDRESS } })
}

async function createAccount(
  tx: Queryable,
  identity: Identity,
  { signup, invitation }: SignInRules,
  origin: RequestOrigin,
): Promise<Account> {
  if (signup === 'invited' && invitation === null) throw new SignInError('signup_closed')
  const { avatar_url, email_verified } = identity
  const email = identity.email!
  const name = identity.name ?? email.slice(0, email.indexOf('@'))
  const user = await createUser(tx, { email, name, password_hash: null, avatar_url, email_verified })
  if (signup === 'invited' && !(await openAccountByInvitation(tx, invitation!, user.id)))
    throw new SignInError('invitation_invalid')
  const organization = await createOrganization(tx, user, `${name}'s organization`, origin)
  await addIdentity(tx, user.id, identity)
  await audit(tx, actorIn(organization.id, user, origin), 'user.registered', {
    type: 'user',
    id: user.id,
    details: { issuer: identity.issuer },
  })
  return user
}

/** Links an identity to a signed-in person. Linking the same one again changes nothing. */
export async function linkIdentity(
  db: Database,
  person: { user_id: string; organization_id: string | null },
  identity: Identity,
  origin: RequestOrigin,
): Promise<void> {
  await db.transaction(async (tx) => {
    await lockIdentity(tx, identity)
    const user = await tx.first<Account>(sql`SELECT id, email, name FROM users WHERE id = ${person.user_id} FOR UPDATE`)
    const holder = await tx.first<{ user_id: string }>(sql`
      SELECT user_id FROM user_identities WHERE issuer = ${identity.issuer} AND subject = ${identity.subject}`)
    if (holder && holder.user_id !== person.user_id) throw new SignInError('identity_taken')
    if (holder) return
    if (await hasIdentity(tx, person.user_id)) throw new SignInError('already_linked')
    await addIdentity(tx, person.user_id, identity)
    if (identity.email_verified)
      await tx.execute(sql`
        UPDATE users SET email_verified_at = coalesce(email_verified_at, now()) WHERE id = ${person.user_id} AND email = ${identity.email}`)
    await audit(tx, actorIn(person.organization_id, user!, origin), 'identity.linked', {
      type: 'user',
      id: person.user_id,
      details: { issuer: identity.issuer, by: 'the person' },
    })
  })
}

export async function unlinkIdentity(db: Database, actor: Actor): Promise<void> {
  await db.transaction(async (tx) => {
    const user = await tx.first<{ has_password: boolean }>(sql`
      SELECT password_hash IS NOT NULL AS has_password FROM users WHERE id = ${actor.user_id} FOR UPDATE`)
    if (!(await hasIdentity(tx, actor.user_id))) {
      throw new AppError('invalid_input', 'No account of the identity provider is linked to yours')
    }
    if (!user?.has_password) {
      throw new AppError(
        'invalid_input',
        'You have no password, so you could no longer sign in; ask the operator to set one first',
      )
    }
    await removeIdentities(tx, actor.user_id)
    await audit(tx, actor, 'identity.unlinked', { type: 'user', id: actor.user_id })
  })
}

const hasIdentity = async (tx: Queryable, userId: string): Promise<boolean> =>
  (await tx.first(sql`SELECT 1 FROM user_identities WHERE user_id = ${userId} LIMIT 1`)) !== null

const removeIdentities = (tx: Queryable, userId: string): Promise<number> =>
  tx.execute(sql`DELETE FROM user_identities WHERE user_id = ${userId}`)

const addIdentity = (tx: Queryable, userId: string, { issuer, subject, email }: Identity): Promise<number> =>
  tx.execute(sql`
    INSERT INTO user_identities (issuer, subject, user_id, email, last_used_at)
    VALUES (${issuer}, ${subject}, ${userId}, ${email}, now())`)

const actorIn = (organizationId: string | null, user: { id: string; email: string }, origin: RequestOrigin) => ({
  ...origin,
  user_id: user.id,
  email: user.email,
  organization_id: organizationId,
  api_key_id: null,
})
