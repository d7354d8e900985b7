/** Changes to pipelines that are shown before the server has answered, and taken back if it refuses. */
import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import type { PipelineItem } from './queries.ts'

export type ActionName = Schemas['PipelineActions']['action'] | 'copy'
export type ActionResult = Schemas['PipelineActionResult']

type Listed = { items: PipelineItem[]; total: number }

function showEnabled(queries: QueryClient, ids: readonly string[], enabled: boolean): void {
  const wanted = new Set(ids)
  queries.setQueriesData<Listed>({ queryKey: ['pipelines'] }, (list) =>
    list?.items?.some(({ id }) => wanted.has(id))
      ? { ...list, items: list.items.map((item) => (wanted.has(item.id) ? { ...item, enabled } : item)) }
      : list,
  )
  for (const id of ids)
    queries.setQueryData<Schemas['Pipeline']>(['pipeline', id], (pipeline) => pipeline && { ...pipeline, enabled })
}

/** What a change of any kind makes stale. */
export function forgetPipelines(queries: QueryClient): void {
  for (const key of ['pipelines', 'pipeline', 'activity', 'runs']) void queries.invalidateQueries({ queryKey: [key] })
}

export function useEnable() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: ({ id, enabled }: { id: string; enabled: boolean }) =>
      answer(api.PUT('/api/pipelines/{id}', { params: { path: { id } }, body: { enabled } })),
    onMutate: ({ id, enabled }) => showEnabled(queries, [id], enabled),
    onError: (_error, { id, enabled }) => showEnabled(queries, [id], !enabled),
    onSettled: () => forgetPipelines(queries),
  })
}

export function useRunNow() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (id: string) => answer(api.POST('/api/pipelines/{id}/run', { params: { path: { id } } })),
    onSettled: () => forgetPipelines(queries),
  })
}

export interface BulkAction {
  action: ActionName
  ids: string[]
  domain_id?: string | null
}

export function useActions() {
  const queries = useQueryClient()
  const [copied, setCopied] = useState<number | null>(null)
  const mutation = useMutation({
    mutationFn: async (actions: readonly BulkAction[]): Promise<ActionResult[]> => {
      const results: ActionResult[] = []
      for (const { action, ...rest } of actions)
        results.push(
          ...(action === 'copy'
            ? await copyAll(rest.ids, setCopied)
            : await answer(api.POST('/api/pipelines/actions', { body: { action, ...rest } }))),
        )
      return results
    },
    onMutate(actions) {
      for (const { action, ids } of actions)
        if (action === 'enable' || action === 'disable') showEnabled(queries, ids, action === 'enable')
    },
    onSettled() {
      setCopied(null)
      forgetPipelines(queries)
    },
  })
  /** How many are copied so far, while that goes on. */
  return { ...mutation, copied }
}

/** Browsers allow six connections to a host, and pages need some of them. */
const COPIES_AT_ONCE = 3

/** A request for each: what one refuses does not stop the others. */
async function copyAll(ids: readonly string[], onCopied: (count: number) => void): Promise<ActionResult[]> {
  const results = new Map<string, ActionResult>()
  const waiting = ids.values()
  const copyNext = async () => {
    for (const id of waiting) {
      const result = await answer(api.POST('/api/pipelines/{id}/copy', { params: { path: { id } }, body: {} })).then(
        ({ name }) => ({ id, ok: true, detail: `copied as ${name}` }),
        (error: Error) => ({ id, ok: false, detail: error.message }),
      )
      results.set(id, result)
      onCopied(results.size)
    }
  }
  await Promise.all(Array.from({ length: COPIES_AT_ONCE }, copyNext))
  return ids.map((id) => results.get(id)!)
}
