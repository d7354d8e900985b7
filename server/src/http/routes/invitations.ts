import { acceptInvitation } from '../../identity/accept-invitation.ts'
import type { Services } from '../../services.ts'
import { cancelInvitation, inviteMember, listInvitations, previewInvitation } from '../../tenancy/invitations.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { NoContent, problems } from '../schemas/common.ts'
import {
  Acceptance,
  CreatedInvitation,
  InvitationItem,
  InvitationList,
  InvitationParams,
  InvitationPreview,
  InvitationToken,
  Invite,
} from '../schemas/invitations.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['Invitations']

export function invitationRoutes(app: App, services: Services): void {
  senderRoutes(app, services)
  recipientRoutes(app, services)
}

function senderRoutes(app: App, { db, config }: Services): void {
  app.post(
    '/api/users/invite',
    {
      config: { access: 'users:invite' },
      schema: {
        tags,
        summary: 'Invite somebody to the organization',
        description:
          'Send them `invite_url`: its token is shown only in this response. A member, or an address with a pending invitation, cannot be invited again (409).',
        body: Invite,
        response: {
          201: CreatedInvitation,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'conflict'),
        },
      },
    },
    async (request, reply) => reply.code(201).send(await inviteMember(db, config, actorOf(request), request.body)),
  )

  app.get(
    '/api/users/invitations',
    {
      config: { access: 'users:invite' },
      schema: {
        tags,
        summary: 'Pending invitations',
        querystring: InvitationList,
        response: { 200: ListOf(InvitationItem), ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) => withTotal(reply, await listInvitations(db, actorOf(request), paging(request.query))),
  )

  app.delete(
    '/api/users/invitations/:invitation_id',
    {
      config: { access: 'users:invite' },
      schema: {
        tags,
        summary: 'Cancel a pending invitation',
        params: InvitationParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await cancelInvitation(db, actorOf(request), request.params.invitation_id)
      return reply.code(204).send(null)
    },
  )
}

function recipientRoutes(app: App, { db, tokens }: Services): void {
  app.get(
    '/api/users/invitations/preview',
    {
      config: { access: 'public' },
      schema: {
        tags,
        summary: 'What an invitation is for',
        description: 'An expired invitation is shown with `is_expired`; one that was used or cancelled is 400.',
        querystring: InvitationToken,
        response: { 200: InvitationPreview, ...problems('invalid_input', 'not_found') },
      },
    },
    (request) => previewInvitation(db, request.query.token),
  )

  app.post(
    '/api/users/invitations/accept',
    {
      config: { access: 'unlimited' },
      schema: {
        tags,
        summary: 'Join the organization that invited you',
        description:
          'Anybody who has the token may use it, once. The response has tokens for the joined organization. If it was accepted with an API key, these tokens end with the key and may do no more than a key.',
        body: InvitationToken,
        response: {
          200: Acceptance,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
        },
      },
    },
    (request) => acceptInvitation(db, tokens, actorOf(request), request.body.token),
  )
}
