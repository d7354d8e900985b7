/** What only the pages of runs read. */
import { queryOptions } from '@tanstack/react-query'
import { answer, api, authorized, type Schemas, toError } from '../../api/client.ts'

export interface Result {
  columns: Schemas['QueryResult']['columns']
  rows: unknown[][]
  truncated: boolean
  execution_time_ms: number
}

export const SAMPLE_ROWS = 200
export const QUERY_ROWS = 500

export function sampleQuery(id: string) {
  return queryOptions({
    queryKey: ['output sample', id],
    queryFn: async ({ signal }) =>
      readResult(await ask(`/api/pipelines/runs/${id}/output/sample?rows=${SAMPLE_ROWS}`, { signal })),
    // An output never changes.
    staleTime: Number.POSITIVE_INFINITY,
  })
}

export function outputQuery(id: string, sql: string) {
  return queryOptions({
    queryKey: ['output query', id, sql],
    queryFn: async ({ signal }) => readResult(await postQuery(id, { sql, format: 'json', limit: QUERY_ROWS }, signal)),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
}

export async function readCsv(id: string, sql: string): Promise<Blob> {
  return (await postQuery(id, { sql, format: 'csv', limit: 10_000 })).blob()
}

function postQuery(id: string, body: object, signal?: AbortSignal): Promise<Response> {
  return ask(`/api/pipelines/runs/${id}/query`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  })
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  const response = await authorized(new Request(path, init))
  if (!response.ok) throw await toError(response)
  return response
}

async function readResult(response: Response): Promise<Result> {
  return parseExactly(await response.text()) as Result
}

/** Numbers that a double cannot hold stay as the digits that were sent. */
function parseExactly(text: string): unknown {
  type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown
  const keepDigits: Reviver = (_key, value, context) =>
    typeof value === 'number' && context?.source !== undefined && String(value) !== context.source
      ? context.source
      : value
  return JSON.parse(text, keepDigits as (key: string, value: unknown) => unknown)
}

export function runConfigQuery(id: string) {
  return queryOptions({
    queryKey: ['run config', id],
    queryFn: () => answer(api.GET('/api/pipelines/runs/{run_id}/config', { params: { path: { run_id: id } } })),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
}

export function schemaQuery(pipelineId: string) {
  return queryOptions({
    queryKey: ['pipeline schema', pipelineId],
    queryFn: () => answer(api.GET('/api/pipelines/{id}/schema', { params: { path: { id: pipelineId } } })),
  })
}

export interface Refused {
  record: unknown
  reason: string
}

const MOST_REFUSED = 200

/** The first refused records; the rest of the answer is not read. */
export function quarantineQuery(id: string) {
  return queryOptions({
    queryKey: ['quarantine', id],
    queryFn: async ({ signal }): Promise<Refused[]> => {
      const response = await ask(`/api/pipelines/runs/${id}/quarantine`, { signal })
      const reader = response.body!.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
      const lines: string[] = []
      let rest = ''
      for await (const text of reader) {
        const parts = (rest + text).split('\n')
        rest = parts.pop()!
        lines.push(...parts)
        if (lines.length >= MOST_REFUSED) break
      }
      return lines.slice(0, MOST_REFUSED).map((line) => parseExactly(line) as Refused)
    },
    staleTime: Number.POSITIVE_INFINITY,
  })
}

export async function readQuarantine(id: string): Promise<Blob> {
  return (await ask(`/api/pipelines/runs/${id}/quarantine`, {})).blob()
}
