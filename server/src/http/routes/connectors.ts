import { listDestinations, listSources } from '../../connections/discovery.ts'
import { checkConnector, listConnectorStreams } from '../../connections/probes.ts'
import { restoreProbe } from '../../pipelines/tried-config.ts'
import { Type } from '../../schema.ts'
import type { Services } from '../../services.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { signalOf } from '../disconnect.ts'
import { problems } from '../schemas/common.ts'
import { CheckResult, DestinationInfo, Probe, SourceInfo, StreamsProbe, StreamsResult } from '../schemas/connectors.ts'

const tags = ['Connectors']

export function connectorRoutes(app: App, services: Services): void {
  app.get(
    '/api/connectors/sources',
    {
      config: { access: 'connectors:read' },
      schema: {
        tags,
        summary: 'List sources',
        description: 'Includes the custom sources of the organization.',
        response: { 200: Type.Array(SourceInfo), ...problems('unauthenticated') },
      },
    },
    (request) => listSources(services.db, actorOf(request)),
  )

  app.get(
    '/api/connectors/destinations',
    {
      config: { access: 'connectors:read' },
      schema: {
        tags,
        summary: 'List destinations',
        response: { 200: Type.Array(DestinationInfo), ...problems('unauthenticated') },
      },
    },
    async () => listDestinations(),
  )

  app.post(
    '/api/connectors/check',
    {
      config: { access: 'connectors:write' },
      schema: {
        tags,
        summary: 'Check a source or destination',
        description:
          'With `stream`, also checks that it exists and can be read, or that its table can be written. Ends after 30 seconds.',
        body: Probe,
        response: {
          200: CheckResult,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) => {
      const actor = actorOf(request)
      return checkConnector(services, actor, await restoreProbe(services, actor, request.body), signalOf(reply))
    },
  )

  app.post(
    '/api/connectors/streams',
    {
      config: { access: 'connectors:write' },
      schema: {
        tags,
        summary: 'List the streams of a source',
        description: 'With `describe`, also their columns, keys and estimated numbers of rows. Ends after 30 seconds.',
        body: StreamsProbe,
        response: {
          200: StreamsResult,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) => {
      const actor = actorOf(request)
      return listConnectorStreams(services, actor, await restoreProbe(services, actor, request.body), signalOf(reply))
    },
  )
}
