/**
 * Authentication, before the body is read. A token or key proves an identity; role, session and membership come from the
 * database in one query, so a change takes effect with the next request.
 *
 * If a token and a key are both given, only the token counts: a bad token is refused even if the key is good.
 */
import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { findSessionActor } from '../identity/session-actor.ts'
import type { Services } from '../services.ts'
import type { Actor, RequestOrigin } from '../tenancy/actor.ts'
import { forbidden } from '../tenancy/actor.ts'
import { findApiKey, KEY_PREFIX } from '../tenancy/api-keys.ts'
import { canSomewhere, isLimited, type Permission } from '../tenancy/permissions.ts'

/**
 * What a route declares: a permission, any signed-in caller, any but an API key with limits, a signed-in person (no API
 * key), or nobody in particular.
 */
export type Access = Permission | 'authenticated' | 'unlimited' | 'person' | 'public'

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access
    /** The handler accepts any query string, because a browser is redirected here. */
    anyAddress?: boolean
    /** A ticket in the query replaces all other credentials; the handler redeems it. */
    ticket?: boolean
  }
  interface FastifyRequest {
    actor: Actor | null
  }
}

export const actorOf = (request: FastifyRequest): Actor => {
  if (request.actor === null) throw new AppError('unauthenticated', 'Sign in first')
  return request.actor
}

/** Where a request came from, for the audit log and for the list of sessions. */
export const originOf = (request: FastifyRequest): RequestOrigin => ({
  request_id: request.id,
  client_address: request.ip,
  user_agent: request.headers['user-agent'],
})

export async function authenticate(services: Services, request: FastifyRequest): Promise<void> {
  const access = request.routeOptions.config.access
  if (access === undefined || access === 'public') return
  if (request.routeOptions.config.ticket && (request.query as { ticket?: unknown }).ticket !== undefined) return
  const actor = await identify(services, request)
  request.actor = actor
  requireAccess(actor, access)
}

export function requireAccess(actor: Actor, access: Access): void {
  if (access === 'authenticated' || access === 'public') return
  if (access === 'unlimited') {
    if (isLimited(actor.scope))
      throw new AppError('forbidden', 'An API key with limits may not do this; sign in, or use a key without limits')
  } else if (access === 'person') {
    if (actor.api_key_id !== null) throw new AppError('forbidden', 'An API key may not do this; sign in as a person')
  } else if (!canSomewhere(actor, access)) throw forbidden(access, actor)
}

async function identify(services: Services, request: FastifyRequest): Promise<Actor> {
  const { authorization, 'x-api-key': key } = request.headers
  const origin = originOf(request)
  if (authorization !== undefined) {
    const token = /^Bearer +([^\s]+)$/i.exec(authorization)?.[1]
    const claims = token === undefined ? null : await services.tokens.verifyAccess(token)
    const actor = claims && (await findSessionActor(services.db, claims))
    if (!actor) {
      const reason = token?.startsWith(KEY_PREFIX)
        ? 'This is an API key, not an access token; send it as "X-API-Key: …"'
        : 'The access token is not valid or no longer valid; sign in or refresh it'
      throw new AppError('unauthenticated', reason, CHALLENGE)
    }
    return Object.assign(actor, origin)
  }
  if (key !== undefined) {
    const row = typeof key === 'string' ? await findApiKey(services.db, key) : null
    if (!row) throw new AppError('unauthenticated', 'The API key is not valid, has expired or was revoked', CHALLENGE)
    services.keyUses.note(row.api_key_id)
    return { ...row, ...origin, session_id: null }
  }
  throw new AppError(
    'unauthenticated',
    'Send an access token as "Authorization: Bearer …" or an API key as "X-API-Key: …"',
    CHALLENGE,
  )
}

const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }
