import { VERSION } from '../../version.ts'
import type { App } from '../app-type.ts'
import { problems, ServiceVersion } from '../schemas/common.ts'

/** Strangers do not learn it: a version tells which faults to try. */
export function versionRoutes(app: App): void {
  app.get(
    '/api/version',
    {
      config: { access: 'authenticated' },
      schema: {
        tags: ['Health'],
        summary: 'The version of the service',
        response: {
          200: ServiceVersion,
          ...problems('unauthenticated'),
        },
      },
    },
    () => ({ version: VERSION }),
  )
}
