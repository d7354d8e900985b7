import type { Services } from '../../services.ts'
import {
  createWebhook,
  deleteWebhook,
  listDeliveries,
  listWebhooks,
  readWebhook,
  resendDelivery,
  testWebhook,
  updateWebhook,
} from '../../webhooks/webhooks.ts'
import type { App } from '../app-type.ts'
import { actorOf } from '../authenticate.ts'
import { IdParams, NoContent, problems } from '../schemas/common.ts'
import {
  CreatedWebhook,
  CreateWebhook,
  DeliveryList,
  DeliveryParams,
  DeliveryView,
  UpdateWebhook,
  WebhookList,
  WebhookView,
} from '../schemas/webhooks.ts'
import { ListOf, paging, withTotal } from '../total-count.ts'

const tags = ['Webhooks']
const config = { access: 'webhooks:write' } as const

export function webhookRoutes(app: App, services: Services): void {
  collectionRoutes(app, services)
  itemRoutes(app, services)
  deliveryRoutes(app, services)
}

function collectionRoutes(app: App, services: Services): void {
  const { db } = services

  app.get(
    '/api/webhooks',
    {
      config,
      schema: {
        tags,
        summary: 'Webhooks of the organization',
        querystring: WebhookList,
        response: { 200: ListOf(WebhookView), ...problems('invalid_input', 'unauthenticated', 'forbidden') },
      },
    },
    async (request, reply) => withTotal(reply, await listWebhooks(db, actorOf(request), paging(request.query))),
  )

  app.post(
    '/api/webhooks',
    {
      config,
      schema: {
        tags,
        summary: 'Create a webhook',
        description:
          'Requests are signed with its secret, which this answer alone shows. docs/webhooks.md says how to verify them and what is promised.',
        body: CreateWebhook,
        response: { 201: CreatedWebhook, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'conflict') },
      },
    },
    async (request, reply) => reply.code(201).send(await createWebhook(services, actorOf(request), request.body)),
  )
}

function itemRoutes(app: App, services: Services): void {
  const { db } = services

  app.get(
    '/api/webhooks/:id',
    {
      config,
      schema: {
        tags,
        summary: 'A webhook',
        params: IdParams,
        response: { 200: WebhookView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => readWebhook(db, actorOf(request), request.params.id),
  )

  app.put(
    '/api/webhooks/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Change a webhook',
        description:
          'Only what is given changes; null clears the description. A new secret signs from the next attempt on. What waits while a webhook is disabled is not sent later.',
        params: IdParams,
        body: UpdateWebhook,
        response: { 200: WebhookView, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    (request) => updateWebhook(services, actorOf(request), request.params.id, request.body),
  )

  app.delete(
    '/api/webhooks/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Delete a webhook and its deliveries',
        params: IdParams,
        response: { 204: NoContent, ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found') },
      },
    },
    async (request, reply) => {
      await deleteWebhook(db, actorOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
}

function deliveryRoutes(app: App, services: Services): void {
  const { db } = services

  app.get(
    '/api/webhooks/:id/deliveries',
    {
      config,
      schema: {
        tags,
        summary: 'What was sent, and what became of it',
        description: 'Newest first. Finished deliveries are kept for 30 days.',
        params: IdParams,
        querystring: DeliveryList,
        response: {
          200: ListOf(DeliveryView),
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found'),
        },
      },
    },
    async (request, reply) =>
      withTotal(reply, await listDeliveries(db, actorOf(request), request.params.id, paging(request.query))),
  )

  app.post(
    '/api/webhooks/:id/test',
    {
      config,
      schema: {
        tags,
        summary: 'Send a test',
        description: 'Queues a delivery of the event `test`; the list of deliveries tells whether it arrived.',
        params: IdParams,
        response: {
          201: DeliveryView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) => reply.code(201).send(await testWebhook(db, actorOf(request), request.params.id)),
  )

  app.post(
    '/api/webhooks/:id/deliveries/:delivery_id/resend',
    {
      config,
      schema: {
        tags,
        summary: 'Send a delivery again',
        description: 'Queues a new delivery with the same event and payload, under a new id.',
        params: DeliveryParams,
        response: {
          201: DeliveryView,
          ...problems('invalid_input', 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many_requests'),
        },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await resendDelivery(db, actorOf(request), request.params.id, request.params.delivery_id)),
  )
}
