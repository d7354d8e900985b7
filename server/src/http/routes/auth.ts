import type { Database } from '../../database/database.ts'
import { changePassword, listMyOrganizations, login, renameUser, switchOrganization } from '../../identity/accounts.ts'
import { register } from '../../identity/registration.ts'
import { COST_OF_TAKEN, REGISTRATIONS_PER_CLIENT } from '../../identity/registration-attempts.ts'
import { closeSession, endSession, listSessions, refreshSession } from '../../identity/sessions.ts'
import { type Static, Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import type { Actor } from '../../tenancy/actor.ts'
import { listDomainRoles } from '../../tenancy/domain-roles.ts'
import { permissionsOf } from '../../tenancy/permissions.ts'
import type { App } from '../app-type.ts'
import { actorOf, originOf } from '../authenticate.ts'
import {
  AuthenticationResult,
  ChangePassword,
  Login,
  Me,
  MyOrganization,
  Refresh,
  Register,
  SessionView,
  SignedIn,
  Switch,
  UpdateMe,
} from '../schemas/auth.ts'
import { IdParams, Message, NoContent, problems } from '../schemas/common.ts'

const tags = ['Auth']

export function authRoutes(app: App, services: Services): void {
  signInRoutes(app, services)
  accountRoutes(app, services)
  sessionRoutes(app, services)
  membershipRoutes(app, services)
}

function signInRoutes(app: App, { db, tokens, config }: Services): void {
  app.post(
    '/api/auth/register',
    {
      config: { access: 'public' },
      schema: {
        tags,
        summary: 'Create an account, and its organization unless it is invited to one',
        description: `With \`invitation_token\` the account joins the organization that sent the invitation; if SIGNUP is \`invited\` it is required (403 without it). After ${REGISTRATIONS_PER_CLIENT} registrations from a client within 15 minutes the answer is 429. One with an address that has an account counts ${COST_OF_TAKEN} times.`,
        body: Register,
        response: {
          201: AuthenticationResult,
          ...problems('invalid_input', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await register({ db, tokens, signup: config.SIGNUP }, request.body, originOf(request))),
  )

  app.post(
    '/api/auth/login',
    {
      config: { access: 'public' },
      schema: {
        tags,
        summary: 'Sign in with a password',
        description:
          'Opens the organization used last. After 10 failed sign-ins for an address, or 50 from a client, within 15 minutes the answer is 429.',
        body: Login,
        response: { 200: SignedIn, ...problems('invalid_input', 'unauthenticated', 'too_many_requests') },
      },
    },
    (request) => login(db, tokens, request.body, originOf(request)),
  )

  app.post(
    '/api/auth/refresh',
    {
      config: { access: 'public' },
      schema: {
        tags,
        summary: 'Exchange a refresh token for new tokens',
        description:
          'Each refresh token is used once. Two tabs may use one at the same time: both get new tokens, and the first of these that is used ends the other. A token that comes back more than 30 seconds after it was used ends the session.',
        body: Refresh,
        response: { 200: SignedIn, ...problems('invalid_input', 'unauthenticated') },
      },
    },
    (request) => refreshSession(db, tokens, request.body.refresh_token, originOf(request)),
  )
}

function accountRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/auth/me',
    {
      config: { access: 'authenticated' },
      schema: { tags, summary: 'The current user', response: { 200: Me, ...problems('unauthenticated') } },
    },
    (request) => describeMe(db, actorOf(request)),
  )

  app.put(
    '/api/auth/me',
    {
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'Change your name',
        description:
          'If an account of the identity provider is linked, its name is used again after the next sign-in there.',
        body: UpdateMe,
        response: { 200: Me, ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request) => {
      const actor = actorOf(request)
      return describeMe(db, { ...actor, name: await renameUser(db, actor, request.body.name) })
    },
  )

  app.put(
    '/api/auth/password',
    {
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'Change the password',
        description: 'All other sessions are signed out.',
        body: ChangePassword,
        response: {
          200: Message,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'conflict', 'too_many_requests'),
        },
      },
    },
    (request) => changePassword(db, actorOf(request), request.body),
  )

  app.post(
    '/api/auth/logout',
    {
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'End this session',
        response: { 200: Message, ...problems('unauthenticated', 'forbidden') },
      },
    },
    async (request) => {
      await closeSession(db, actorOf(request))
      return { message: 'Signed out' }
    },
  )
}

function membershipRoutes(app: App, { db, tokens }: Services): void {
  app.get(
    '/api/auth/organizations',
    {
      config: { access: 'unlimited' },
      schema: {
        tags,
        summary: 'The organizations you belong to',
        response: { 200: Type.Array(MyOrganization), ...problems('unauthenticated', 'forbidden') },
      },
    },
    (request) => listMyOrganizations(db, actorOf(request).user_id),
  )

  app.post(
    '/api/auth/switch',
    {
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'Open another of your organizations',
        body: Switch,
        response: {
          200: SignedIn,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found'),
        },
      },
    },
    (request) => switchOrganization(db, tokens, actorOf(request), request.body.organization_id),
  )
}

function sessionRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/auth/sessions',
    {
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'Your sessions in all your organizations',
        description:
          'The one used last comes first. A session is used when it is opened and when its tokens are refreshed.',
        response: { 200: Type.Array(SessionView), ...problems('unauthenticated', 'forbidden') },
      },
    },
    (request) => listSessions(db, actorOf(request)),
  )

  app.delete(
    '/api/auth/sessions/:id',
    {
      config: { access: 'person' },
      schema: {
        tags,
        summary: 'End one of your sessions',
        description: 'Its tokens stop working immediately. It may be the session of this request.',
        params: IdParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await endSession(db, actorOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
}

async function describeMe(db: Database, actor: Actor): Promise<Static<typeof Me>> {
  const raised = Object.keys(actor.domain_roles).length > 0
  return {
    id: actor.user_id,
    email: actor.email,
    name: actor.name,
    avatar_url: actor.avatar_url,
    role: actor.role,
    organization: { id: actor.organization_id, name: actor.organization_name, slug: actor.organization_slug },
    permissions: permissionsOf(actor),
    has_password: actor.has_password,
    idp_linked: actor.idp_linked,
    domain_roles: raised ? await listDomainRoles(db, actor, actor.user_id) : [],
    created_at: actor.created_at,
  }
}
