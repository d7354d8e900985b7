/** What only the pages of pipelines read. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { answer, answerList, api, type Schemas } from '../../api/client.ts'
import type { PipelineFilters } from '../../api/queries.ts'
import type { PipelineSearch } from './routes.ts'

export type PipelineItem = Schemas['PipelineListItem']
export type Activity = Schemas['PipelineActivity']
export type StripRun = Activity['runs'][number]

/** How many pipelines one request lists. */
export const PAGE = 100

export const filtersOf = (search: PipelineSearch, page: number): PipelineFilters =>
  ({ ...search, limit: PAGE, offset: page * PAGE }) as PipelineFilters

/** `stamp` changes when a run of one of them began or ended, so that they are read again. */
export function activityQuery(ids: readonly string[], { runs = 20, stamp = '' } = {}) {
  return queryOptions({
    queryKey: ['activity', ids, runs, stamp],
    queryFn: ({ signal }) =>
      answer(api.GET('/api/pipelines/activity', { params: { query: { ids: ids.join(','), runs } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
    meta: { live: true },
  })
}

export function pipelineRunsQuery(id: string, page: { status?: string; limit: number; offset: number }) {
  return queryOptions({
    queryKey: ['pipeline', id, 'runs', page],
    queryFn: ({ signal }) =>
      answerList(
        api.GET('/api/runs', { params: { query: { ...page, pipeline_id: id } as { limit: number } }, signal }),
      ),
    placeholderData: keepPreviousData,
    meta: { live: true },
  })
}

export function schemaQuery(id: string) {
  return queryOptions({
    queryKey: ['pipeline', id, 'schema'],
    queryFn: () => answer(api.GET('/api/pipelines/{id}/schema', { params: { path: { id } } })),
  })
}

export function stateQuery(id: string) {
  return queryOptions({
    queryKey: ['pipeline', id, 'state'],
    queryFn: () => answer(api.GET('/api/pipelines/{id}/state', { params: { path: { id } } })),
  })
}

export const AUDIT_PAGE = 50

export function auditQuery(id: string, before?: number) {
  return queryOptions({
    queryKey: ['pipeline', id, 'audit', before ?? null],
    // The same address also answers with CSV, to those who ask for it.
    queryFn: () =>
      answer(
        api.GET('/api/audit', { params: { query: { object_id: id, limit: AUDIT_PAGE, ...(before && { before }) } } }),
      ) as Promise<Schemas['AuditLine'][]>,
    placeholderData: keepPreviousData,
  })
}
