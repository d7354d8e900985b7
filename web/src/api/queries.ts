/** What pages read, each with the key under which it is cached. Pages share these, so that one change updates all. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { paths } from '../../../clients/typescript/src/schema.d.ts'
import { answer, answerList, api, type Schemas } from './client.ts'

type QueryOf<Path extends keyof paths> = paths[Path] extends { get: { parameters: { query?: infer Query } } }
  ? NonNullable<Query>
  : never

export type PipelineFilters = QueryOf<'/api/pipelines'>
export type RunFilters = QueryOf<'/api/runs'>

export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: () => answer(api.GET('/api/auth/me')),
  staleTime: 60_000,
})

export const organizationsQuery = queryOptions({
  queryKey: ['organizations'],
  queryFn: () => answer(api.GET('/api/auth/organizations')),
  staleTime: 60_000,
})

export function pipelinesQuery(filters: PipelineFilters) {
  return queryOptions({
    queryKey: ['pipelines', filters],
    queryFn: ({ signal }) => answerList(api.GET('/api/pipelines', { params: { query: filters }, signal })),
    placeholderData: keepPreviousData,
  })
}

export function pipelineQuery(id: string) {
  return queryOptions({
    queryKey: ['pipeline', id],
    queryFn: () => answer(api.GET('/api/pipelines/{id}', { params: { path: { id } } })),
  })
}

export function runsQuery(filters: RunFilters) {
  return queryOptions({
    queryKey: ['runs', filters],
    queryFn: ({ signal }) => answerList(api.GET('/api/runs', { params: { query: filters }, signal })),
    placeholderData: keepPreviousData,
  })
}

export function runQuery(id: string) {
  return queryOptions({
    queryKey: ['run', id],
    queryFn: () => answer(api.GET('/api/pipelines/runs/{run_id}', { params: { path: { run_id: id } } })),
  })
}

export type ConnectorKind = 'source' | 'destination'
export type Connector = Schemas['SourceConnector'] | Schemas['DestinationConnector']

export function catalogueQuery(kind: ConnectorKind) {
  return queryOptions({
    queryKey: ['catalogue', kind],
    queryFn: (): Promise<Connector[]> =>
      kind === 'source' ? answer(api.GET('/api/connectors/sources')) : answer(api.GET('/api/connectors/destinations')),
    staleTime: 60_000,
  })
}

export function savedConnectorsQuery(kind: ConnectorKind) {
  return queryOptions({
    queryKey: ['saved', kind],
    queryFn: () =>
      kind === 'source' ? answer(api.GET('/api/saved/sources')) : answer(api.GET('/api/saved/destinations')),
  })
}

export function savedConnectorQuery(kind: ConnectorKind, id: string) {
  const params = { path: { id } }
  return queryOptions({
    queryKey: ['saved', kind, id],
    queryFn: () =>
      kind === 'source'
        ? answer(api.GET('/api/saved/sources/{id}', { params }))
        : answer(api.GET('/api/saved/destinations/{id}', { params })),
  })
}

export function usesQuery(kind: ConnectorKind, id: string) {
  const params = { path: { id } }
  return queryOptions({
    queryKey: ['saved', kind, id, 'pipelines'],
    queryFn: () =>
      kind === 'source'
        ? answer(api.GET('/api/saved/sources/{id}/pipelines', { params }))
        : answer(api.GET('/api/saved/destinations/{id}/pipelines', { params })),
  })
}
