import type { Services } from '../../services.ts'
import { grantDomainRole, listMemberDomainRoles, revokeDomainRole } from '../../tenancy/domain-roles.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { DomainRoleView } from '../schemas/auth.ts'
import { NoContent, problems } from '../schemas/common.ts'
import { DomainRoleParams, GrantDomainRole } from '../schemas/domain-roles.ts'
import { MemberParams } from '../schemas/users.ts'
import { ListOf, withTotal } from '../total-count.ts'

const tags = ['Domain roles']

export function domainRoleRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/users/:user_id/domain-roles',
    {
      config: { access: 'members:read' },
      schema: {
        tags,
        summary: 'Domain roles of a member',
        params: MemberParams,
        response: {
          200: ListOf(DomainRoleView),
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found'),
        },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listMemberDomainRoles(db, actorOf(request), request.params.user_id)),
  )

  app.post(
    '/api/users/:user_id/domain-roles',
    {
      config: { access: 'users:manage_roles' },
      schema: {
        tags,
        summary: 'Give a member a higher role in one domain',
        description:
          'It only adds permissions in this domain, and changes nothing for admins and the owner. Only the owner grants the admin role (403). A member has one role per domain (409).',
        params: MemberParams,
        body: GrantDomainRole,
        response: {
          201: DomainRoleView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
        },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await grantDomainRole(db, actorOf(request), request.params.user_id, request.body)),
  )

  app.delete(
    '/api/users/:user_id/domain-roles/:domain_id',
    {
      config: { access: 'users:manage_roles' },
      schema: {
        tags,
        summary: 'Remove a domain role',
        params: DomainRoleParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await revokeDomainRole(db, actorOf(request), request.params.user_id, request.params.domain_id)
      return reply.code(204).send(null)
    },
  )
}
