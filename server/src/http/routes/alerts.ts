import { createAlert, deleteAlert, listAlerts, readAlert, updateAlert } from '../../alerts/alerts.ts'
import type { Services } from '../../services.ts'
import { listAlertDeliveries, testAlert } from '../../webhooks/alert-deliveries.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import {
  AlertDeliveryList,
  AlertDeliveryView,
  AlertList,
  AlertView,
  CreateAlert,
  UpdateAlert,
} from '../schemas/alerts.ts'
import { IdParams, NoContent, problems } from '../schemas/common.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['Alerts']
const config = { access: 'webhooks:write' } as const

export function alertRoutes(app: App, services: Services): void {
  collectionRoutes(app, services)
  itemRoutes(app, services)
  deliveryRoutes(app, services)
}

function collectionRoutes(app: App, services: Services): void {
  app.get(
    '/api/alerts',
    {
      config,
      schema: {
        tags,
        summary: 'Alerts of the organization',
        querystring: AlertList,
        response: { 200: ListOf(AlertView), ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) => withTotal(reply, await listAlerts(services, actorOf(request), paging(request.query))),
  )

  app.post(
    '/api/alerts',
    {
      config,
      schema: {
        tags,
        summary: 'Create an alert',
        description:
          'Tells people once when something begins, and once when it is over. docs/alerts.md says what each event means.',
        body: CreateAlert,
        response: {
          201: AlertView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
        },
      },
    },
    async (request, reply) => reply.code(201).send(await createAlert(services, actorOf(request), request.body)),
  )
}

function itemRoutes(app: App, services: Services): void {
  app.get(
    '/api/alerts/:id',
    {
      config,
      schema: {
        tags,
        summary: 'An alert',
        params: IdParams,
        response: { 200: AlertView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => readAlert(services, actorOf(request), request.params.id),
  )

  app.put(
    '/api/alerts/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Change an alert',
        description:
          'Only what is given changes; null clears. After a change of what it watches, or of `enabled`, it starts anew: what it has told of is over without a message.',
        params: IdParams,
        body: UpdateAlert,
        response: { 200: AlertView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => updateAlert(services, actorOf(request), request.params.id, request.body),
  )

  app.delete(
    '/api/alerts/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Delete an alert and its deliveries',
        params: IdParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await deleteAlert(services.db, actorOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
}

function deliveryRoutes(app: App, services: Services): void {
  app.get(
    '/api/alerts/:id/deliveries',
    {
      config,
      schema: {
        tags,
        summary: 'What an alert has sent, and what became of it',
        description: 'Newest first. Finished deliveries are kept for 30 days.',
        params: IdParams,
        querystring: AlertDeliveryList,
        response: {
          200: ListOf(AlertDeliveryView),
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found'),
        },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listAlertDeliveries(services, actorOf(request), request.params.id, paging(request.query))),
  )

  app.post(
    '/api/alerts/:id/test',
    {
      config,
      schema: {
        tags,
        summary: 'Send a test of an alert',
        description:
          'Queues a message, which is sent at once, in quiet hours too; the list of deliveries tells whether it arrived.',
        params: IdParams,
        response: {
          201: AlertDeliveryView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) => reply.code(201).send(await testAlert(services, actorOf(request), request.params.id)),
  )
}
