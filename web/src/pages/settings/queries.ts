import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { paths } from '../../../../clients/typescript/src/schema.d.ts'
import { answer, answerList, api } from '../../api/client.ts'

export const domainsQuery = queryOptions({
  queryKey: ['domains', 'counted'],
  queryFn: () => answer(api.GET('/api/domains', { params: { query: { include_counts: true, limit: 1000 } } })),
  staleTime: 30_000,
})

export const apiKeysQuery = queryOptions({
  queryKey: ['api-keys'],
  queryFn: () => answer(api.GET('/api/api-keys')),
})

export const webhooksQuery = queryOptions({
  queryKey: ['webhooks'],
  queryFn: () => answer(api.GET('/api/webhooks')),
})

export function webhookQuery(id: string) {
  return queryOptions({
    queryKey: ['webhooks', id],
    queryFn: () => answer(api.GET('/api/webhooks/{id}', { params: { path: { id } } })),
  })
}

export function deliveriesQuery(id: string) {
  return queryOptions({
    queryKey: ['webhooks', id, 'deliveries'],
    queryFn: () =>
      answer(api.GET('/api/webhooks/{id}/deliveries', { params: { path: { id }, query: { limit: 100 } } })),
    // A delivery ends within seconds, or is tried again after minutes.
    refetchInterval: ({ state }) => (state.data?.some(({ status }) => status === 'pending') ? 2_000 : 15_000),
  })
}

export const alertsQuery = queryOptions({
  queryKey: ['alerts'],
  queryFn: () => answer(api.GET('/api/alerts')),
})

export function alertQuery(id: string) {
  return queryOptions({
    queryKey: ['alerts', id],
    queryFn: () => answer(api.GET('/api/alerts/{id}', { params: { path: { id } } })),
  })
}

export function alertDeliveriesQuery(id: string) {
  return queryOptions({
    queryKey: ['alerts', id, 'deliveries'],
    queryFn: () => answer(api.GET('/api/alerts/{id}/deliveries', { params: { path: { id }, query: { limit: 100 } } })),
    // As those of webhooks; what quiet hours hold back changes only at their end.
    refetchInterval: ({ state }) =>
      state.data?.some(({ status, event, attempts }) => status === 'pending' && (event === 'test' || attempts > 0))
        ? 2_000
        : 15_000,
  })
}

export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: () => answer(api.GET('/api/auth/sessions')),
})

export type AuditFilters = NonNullable<paths['/api/audit']['get']['parameters']['query']>

export function auditQuery(filters: AuditFilters) {
  return queryOptions({
    queryKey: ['audit', filters],
    queryFn: ({ signal }) => answerList(api.GET('/api/audit', { params: { query: filters }, signal }) as AuditAnswer),
    placeholderData: keepPreviousData,
  })
}

/** The route can also answer with CSV, which is not asked for here. */
type AuditAnswer = Promise<{
  data?: Extract<paths['/api/audit']['get']['responses'][200]['content']['application/json'], unknown[]>
  response: Response
}>
