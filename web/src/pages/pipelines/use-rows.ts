/** The rows of the list, of which only those in view are loaded: a page at a time, wherever one scrolls to. */
import { useQueries, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { pipelinesQuery } from '../../api/queries.ts'
import { type Activity, activityQuery, filtersOf, PAGE, type PipelineItem } from './queries.ts'
import type { PipelineSearch } from './routes.ts'

/** How many pipelines one request asks the last runs of. */
const GROUP = 25

export interface Rows {
  total: number
  /** Undefined while it is being loaded. */
  itemAt(index: number): PipelineItem | undefined
  /** Undefined if it is not loaded. */
  indexOf(id: string): number | undefined
  activityOf(id: string): Activity | undefined
  isPending: boolean
  /** The rows shown are still those of the last search. */
  isOld: boolean
  error: Error | null
  retry(): void
  /** Which rows are in view. */
  show(first: number, last: number): void
}

export function useRows(search: PipelineSearch): Rows {
  const [view, setView] = useState({ first: 0, last: 40 })
  const head = useQuery(pipelinesQuery(filtersOf(search, 0)))
  const total = head.data?.total ?? 0
  const numbers = head.isPlaceholderData ? [] : range(pageOf(view.first), pageOf(Math.min(view.last, total - 1)))
  const further = numbers.filter((number) => number > 0)
  const pages = useQueries({
    queries: further.map((number) => pipelinesQuery(filtersOf(search, number))),
  })
  const loaded = new Map<number, PipelineItem[]>([[0, head.data?.items ?? []]])
  for (const [at, number] of further.entries()) loaded.set(number, pages[at]?.data?.items ?? [])
  const itemAt = (index: number) => loaded.get(pageOf(index))?.[index % PAGE]
  const activity = useActivity(view, itemAt)
  return {
    total,
    itemAt,
    indexOf(id) {
      for (const [page, items] of loaded) {
        const at = items.findIndex((item) => item.id === id)
        if (at >= 0) return page * PAGE + at
      }
      return undefined
    },
    activityOf: (id) => activity.get(id),
    isPending: head.isPending,
    isOld: head.isPlaceholderData,
    error: head.error ?? pages.find(({ error }) => error)?.error ?? null,
    retry: () => void [head, ...pages].map((query) => query.refetch()),
    show(first, last) {
      if (groupOf(first) !== groupOf(view.first) || groupOf(last) !== groupOf(view.last)) setView({ first, last })
    },
  }
}

function useActivity(view: { first: number; last: number }, itemAt: Rows['itemAt']): Map<string, Activity> {
  const groups = range(groupOf(view.first), groupOf(view.last)).map((group) =>
    range(group * GROUP, group * GROUP + GROUP - 1)
      .map(itemAt)
      .filter((item) => item !== undefined),
  )
  const answers = useQueries({
    queries: groups
      .filter((items) => items.length > 0)
      .map((items) =>
        activityQuery(
          items.map(({ id }) => id),
          { stamp: items.map(({ last_run_at, last_run_status }) => `${last_run_at}${last_run_status}`).join() },
        ),
      ),
  })
  return new Map(answers.flatMap(({ data = [] }) => data).map((found) => [found.pipeline_id, found]))
}

const pageOf = (index: number): number => Math.floor(Math.max(0, index) / PAGE)
const groupOf = (index: number): number => Math.floor(Math.max(0, index) / GROUP)
const range = (first: number, last: number): number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at)
