import type { Services } from '../../services.ts'
import { readOrganization, renameOrganization, transferOwnership } from '../../tenancy/organization.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { OrganizationView, UpdateOrganization } from '../schemas/auth.ts'
import { Message, problems } from '../schemas/common.ts'
import { TransferOwnership } from '../schemas/organization.ts'

const tags = ['Organization']

export function organizationRoutes(app: App, { db }: Services): void {
  app.get(
    '/api/organization',
    {
      config: { access: 'authenticated' },
      schema: {
        tags,
        summary: 'The current organization',
        response: { 200: OrganizationView, ...problems('unauthenticated') },
      },
    },
    (request) => readOrganization(actorOf(request)),
  )

  app.put(
    '/api/organization',
    {
      config: { access: 'organization:write' },
      schema: {
        tags,
        summary: 'Rename the organization',
        body: UpdateOrganization,
        response: { 200: OrganizationView, ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    (request) => renameOrganization(db, actorOf(request), request.body),
  )

  app.post(
    '/api/organization/transfer-ownership',
    {
      config: { access: 'organization:transfer' },
      schema: {
        tags,
        summary: 'Make another member the owner',
        description: 'The old owner becomes an admin.',
        body: TransferOwnership,
        response: { 200: Message, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => transferOwnership(db, actorOf(request), request.body.user_id),
  )
}
