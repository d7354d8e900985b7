/**
 * Signing in at an identity provider.
 *
 * On the way out a row keeps the hash of `state`, the code verifier and the nonce for ten minutes, and the browser gets a
 * random cookie whose hash is in the row as well. On the way back the row is deleted by the request that brings both the
 * state and the cookie. So a state that was seen in a log, sent to another browser or used before opens nothing. The cookie
 * carries the invitation too, so that no usable invitation token is stored; it is handed back for the person to accept.
 */
import { randomBytes } from 'node:crypto'
import { type Database, type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import { sha256 } from '../sha256.ts'
import type { Actor, RequestOrigin } from '../tenancy/actor.ts'
import { countWithin } from './attempts.ts'
import { networkOf } from './client-network.ts'
import { linkIdentity, type SignInRules, signInWithIdentity } from './provider-accounts.ts'
import type { Challenge, ProviderClient } from './provider-client.ts'
import { SignInError } from './provider-errors.ts'
import type { AuthenticationResult } from './sessions.ts'
import type { Tokens } from './tokens.ts'

export const STATE_SECONDS = 600
/** Each one leaves a row behind, and anybody may start them. */
export const SIGN_INS_PER_CLIENT = 1000

export interface StartedSignIn {
  /** Where the browser goes. */
  url: string
  cookie_name: string
  cookie: string
}

export type SignInOutcome =
  | { kind: 'signed_in'; result: AuthenticationResult; invitation: string | null }
  | { kind: 'linked' }

/** One cookie per sign-in, so that two tabs do not disturb each other. */
const cookieName = (state: string) => `sluice_idp_${sha256(`name ${state}`).toString('hex').slice(0, 12)}`

export function requireProvider(client: ProviderClient | null): ProviderClient {
  if (client) return client
  throw new AppError(
    'invalid_input',
    'No identity provider is configured; an operator can set IDP_ISSUER and IDP_CLIENT_ID',
  )
}

export const countSignIn = (db: Queryable, { client_address }: RequestOrigin): Promise<void> =>
  countWithin(db, 'sign-ins from your network', {
    key: `idp ${networkOf(client_address)}`,
    most: SIGN_INS_PER_CLIENT,
  })

export async function beginSignIn(
  db: Queryable,
  client: ProviderClient,
  purpose: { invitation?: string | undefined; link?: Pick<Actor, 'user_id' | 'organization_id'> },
): Promise<StartedSignIn> {
  const challenge = client.makeChallenge()
  const url = await client.authorizationUrl(challenge)
  const secret = randomBytes(32).toString('base64url')
  const cookie = purpose.invitation === undefined ? secret : `${secret}.${purpose.invitation}`
  await db.execute(sql`
    INSERT INTO idp_states (state_hash, browser_hash, code_verifier, nonce, link_user_id, link_organization_id, expires_at)
    VALUES (${sha256(challenge.state)}, ${sha256(cookie)}, ${challenge.code_verifier}, ${challenge.nonce},
            ${purpose.link?.user_id ?? null}, ${purpose.link?.organization_id ?? null},
            now() + make_interval(secs => ${STATE_SECONDS}))`)
  return { url, cookie, cookie_name: cookieName(challenge.state) }
}

export interface Callback {
  /** Exactly as the provider sent it. */
  query: string
  /** The cookie that the browser brought under this name. */
  cookie(name: string): string | undefined
}

/** The name of the cookie that a callback uses up, so that it can be removed even if the sign-in fails. */
export function cookieNameOf(query: string): string | null {
  const state = readState(query)
  return state === null ? null : cookieName(state)
}

export interface SignInTools {
  db: Database
  tokens: Tokens
  client: ProviderClient
  signup: SignInRules['signup']
}

export async function finishSignIn(
  { db, tokens, client, signup }: SignInTools,
  callback: Callback,
  origin: RequestOrigin,
): Promise<SignInOutcome> {
  const state = readState(callback.query)
  const cookie = state === null ? undefined : callback.cookie(cookieName(state))
  if (state === null || cookie === undefined) throw new SignInError('invalid_state')
  const pending = await takePending(db, state, cookie)
  const identity = await client.identify(callback.query, pending)
  if (pending.link_user_id !== null) {
    const person = { user_id: pending.link_user_id, organization_id: pending.link_organization_id }
    await linkIdentity(db, person, identity, origin)
    return { kind: 'linked' }
  }
  const invitation = cookie.includes('.') ? cookie.slice(cookie.indexOf('.') + 1) : null
  const result = await signInWithIdentity({ db, tokens }, identity, { signup, invitation }, origin)
  return { kind: 'signed_in', result, invitation }
}

/** Null unless there is exactly one. */
function readState(query: string): string | null {
  const states = new URLSearchParams(query).getAll('state')
  return states.length === 1 && states[0] !== '' ? states[0]! : null
}

interface PendingSignIn extends Challenge {
  link_user_id: string | null
  link_organization_id: string | null
}

async function takePending(db: Queryable, state: string, cookie: string): Promise<PendingSignIn> {
  const row = await db.first<Omit<PendingSignIn, 'state'> & { fresh: boolean }>(sql`
    DELETE FROM idp_states WHERE state_hash = ${sha256(state)} AND browser_hash = ${sha256(cookie)}
    RETURNING code_verifier, nonce, link_user_id, link_organization_id, expires_at > now() AS fresh`)
  if (!row) throw new SignInError('invalid_state')
  if (!row.fresh) throw new SignInError('state_expired')
  return { ...row, state }
}
