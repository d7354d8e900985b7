import type { Services } from '../../services.ts'
import { readOrganization, renameOrganization } from '../../tenancy/organization.ts'
import type { App } from '../app.ts'
import { actorOf } from '../authenticate.ts'
import { OrganizationView, UpdateOrganization } from '../schemas/auth.ts'
import { problems } from '../schemas/common.ts'

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
}
