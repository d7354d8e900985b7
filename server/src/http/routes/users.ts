import type { Services } from '../../services.ts'
import { listMembers, readMember, removeMember, updateMemberRole } from '../../tenancy/members.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { NoContent, problems } from '../schemas/common.ts'
import { MemberList, MemberParams, MemberRole, MemberView, UpdateRole } from '../schemas/users.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['Users']

export function userRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/users',
    {
      config: { access: 'members:read' },
      schema: {
        tags,
        summary: 'Members of the organization',
        querystring: MemberList,
        response: { 200: ListOf(MemberView), ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) => withTotal(reply, await listMembers(db, actorOf(request), paging(request.query))),
  )

  app.get(
    '/api/users/:user_id',
    {
      config: { access: 'members:read' },
      schema: {
        tags,
        summary: 'A member',
        params: MemberParams,
        response: { 200: MemberView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => readMember(db, actorOf(request), request.params.user_id),
  )

  app.put(
    '/api/users/:user_id/role',
    {
      config: { access: 'users:manage_roles' },
      schema: {
        tags,
        summary: 'Change the role of a member',
        description:
          'Not to owner (400): transfer the ownership instead. Nobody changes the owner, and no admin changes another admin (403). The invitations of somebody who may no longer invite are cancelled.',
        params: MemberParams,
        body: UpdateRole,
        response: { 200: MemberRole, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => updateMemberRole(db, actorOf(request), request.params.user_id, request.body.role),
  )

  app.delete(
    '/api/users/:user_id',
    {
      config: { access: 'users:manage_roles' },
      schema: {
        tags,
        summary: 'Remove a member from the organization',
        description:
          'Their sessions and API keys in this organization end immediately, and the invitations they sent are cancelled. Nobody removes the owner, and no admin removes another admin (403).',
        params: MemberParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await removeMember(db, actorOf(request), request.params.user_id)
      return reply.code(204).send(null)
    },
  )
}
