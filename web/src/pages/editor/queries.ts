/** What the editor asks about connectors before anything is saved. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { answer, api, type Schemas } from '../../api/client.ts'
import type { Fields } from './fields.ts'

export type StreamDescription = NonNullable<Schemas['StreamsResult']['descriptions']>[number]

/** Secrets that are masked are taken from the stored pipeline. */
export interface Probe {
  source: Fields
  pipelineId: string | null
}

const KEPT = { staleTime: 5 * 60_000, retry: false }

function withoutStream({ stream: _, ...source }: Fields): Fields {
  return source
}

function bodyOf({ source, pipelineId }: Probe) {
  return { source: withoutStream(source), ...(pipelineId !== null && { pipeline_id: pipelineId }) }
}

export function streamsQuery(probe: Probe) {
  const body = bodyOf(probe)
  return queryOptions({
    queryKey: ['streams', body],
    queryFn: ({ signal }) => answer(api.POST('/api/connectors/streams', { body, signal })),
    ...KEPT,
  })
}

/** Of one stream, or of the first hundred. */
export function descriptionsQuery(probe: Probe, stream: string | null) {
  const body = { ...bodyOf(probe), describe: true, ...(stream !== null && { stream }) }
  return queryOptions({
    queryKey: ['descriptions', body],
    queryFn: ({ signal }) => answer(api.POST('/api/connectors/streams', { body, signal })),
    ...KEPT,
  })
}

export function nextTimesQuery(schedule: string, timezone: string | null) {
  return queryOptions({
    queryKey: ['schedule-preview', schedule, timezone],
    queryFn: ({ signal }) =>
      answer(api.POST('/api/pipelines/schedule-preview', { body: { schedule, timezone }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
    retry: false,
  })
}

export const domainsQuery = queryOptions({
  queryKey: ['domains', { limit: 1000 }],
  queryFn: () => answer(api.GET('/api/domains', { params: { query: { limit: 1000 } } })),
  staleTime: 60_000,
})
