/**
 * Signing in at an identity provider: away and back.
 *
 * Away: a row holds the hash of `state`, the code verifier and the nonce for ten minutes, and the browser gets a ticket
 * in a cookie whose hash is in the row as well. Back: the row is taken, once, by whoever brings both the state and the
 * ticket. A state seen in a log, sent to somebody else or brought a second time therefore opens nothing. The ticket
 * carries the invitation too, so that no usable token of one is stored; it is handed back for the person to accept.
 */
import { createHash, randomBytes } from 'node:crypto'
import { type Database, type Queryable, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { Actor, RequestOrigin } from '../tenancy/actor.ts'
import { linkIdentity, type SignInRules, signInWithIdentity } from './provider-accounts.ts'
import type { Challenge, ProviderClient } from './provider-client.ts'
import { SignInError } from './provider-errors.ts'
import type { AuthenticationResult } from './sessions.ts'
import type { Tokens } from './tokens.ts'

export const STATE_SECONDS = 600

export interface Departure {
  /** Where the browser goes. */
  url: string
  ticket_name: string
  ticket: string
}

export type Arrival =
  | { outcome: 'signed_in'; result: AuthenticationResult; invitation: string | null }
  | { outcome: 'linked' }

const hash = (text: string) => createHash('sha256').update(text).digest()

/** One ticket per sign-in, so that two tabs do not disturb each other. */
const ticketName = (state: string) => `sluice_idp_${hash(`name ${state}`).toString('hex').slice(0, 12)}`

export function requireProvider(client: ProviderClient | null): ProviderClient {
  if (client) return client
  throw new AppError(
    'invalid_input',
    'No identity provider is configured; an operator can set IDP_ISSUER and IDP_CLIENT_ID',
  )
}

export async function depart(
  db: Queryable,
  client: ProviderClient,
  purpose: { invitation?: string | undefined; link?: Pick<Actor, 'user_id' | 'organization_id'> },
): Promise<Departure> {
  const challenge = client.makeChallenge()
  const url = await client.authorizationUrl(challenge)
  const secret = randomBytes(32).toString('base64url')
  const ticket = purpose.invitation === undefined ? secret : `${secret}.${purpose.invitation}`
  await db.execute(sql`
    INSERT INTO idp_states (state_hash, browser_hash, code_verifier, nonce, link_user_id, link_organization_id, expires_at)
    VALUES (${hash(challenge.state)}, ${hash(ticket)}, ${challenge.code_verifier}, ${challenge.nonce},
            ${purpose.link?.user_id ?? null}, ${purpose.link?.organization_id ?? null},
            now() + make_interval(secs => ${STATE_SECONDS}))`)
  return { url, ticket, ticket_name: ticketName(challenge.state) }
}

export interface Callback {
  /** As it came, with everything the provider put into it. */
  query: string
  /** The ticket that the browser brought under this name. */
  ticket(name: string): string | undefined
}

/** The name of the cookie that a callback uses up, so that it can be removed whatever comes of it. */
export function ticketNameOf(query: string): string | null {
  const state = readState(query)
  return state === null ? null : ticketName(state)
}

export async function arrive(
  db: Database,
  tokens: Tokens,
  client: ProviderClient,
  signup: SignInRules['signup'],
  callback: Callback,
  origin: RequestOrigin,
): Promise<Arrival> {
  const state = readState(callback.query)
  const ticket = state === null ? undefined : callback.ticket(ticketName(state))
  if (state === null || ticket === undefined) throw new SignInError('invalid_state')
  const journey = await takeJourney(db, state, ticket)
  const identity = await client.identify(callback.query, journey)
  if (journey.link_user_id !== null) {
    const person = { user_id: journey.link_user_id, organization_id: journey.link_organization_id }
    await linkIdentity(db, person, identity, origin)
    return { outcome: 'linked' }
  }
  const invitation = ticket.includes('.') ? ticket.slice(ticket.indexOf('.') + 1) : null
  const result = await signInWithIdentity(db, tokens, identity, { signup, invitation }, origin)
  return { outcome: 'signed_in', result, invitation }
}

/** Null unless there is exactly one. */
function readState(query: string): string | null {
  const states = new URLSearchParams(query).getAll('state')
  return states.length === 1 && states[0] !== '' ? states[0]! : null
}

interface Journey extends Challenge {
  link_user_id: string | null
  link_organization_id: string | null
}

async function takeJourney(db: Queryable, state: string, ticket: string): Promise<Journey> {
  const row = await db.first<Omit<Journey, 'state'> & { fresh: boolean }>(sql`
    DELETE FROM idp_states WHERE state_hash = ${hash(state)} AND browser_hash = ${hash(ticket)}
    RETURNING code_verifier, nonce, link_user_id, link_organization_id, expires_at > now() AS fresh`)
  if (!row) throw new SignInError('invalid_state')
  if (!row.fresh) throw new SignInError('state_expired')
  return { ...row, state }
}
