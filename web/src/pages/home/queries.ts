/** What only the first page reads. It is read again when runs begin or end, at most every few seconds. */
import { queryOptions, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { answer, api, type Schemas } from '../../api/client.ts'
import { useRunEvents } from '../../api/live-runs.ts'

export type Lane = Schemas['TimelinePipeline']
export type Bar = Schemas['TimelineBar']
export type Day = Schemas['RunDay']

const LANES = 20
const DAYS = 14

export const timelineQuery = queryOptions({
  queryKey: ['home', 'timeline'],
  queryFn: () => answer(api.GET('/api/runs/timeline', { params: { query: { pipelines: LANES } } })),
  meta: { live: true },
})

export const daysQuery = queryOptions({
  queryKey: ['home', 'days'],
  queryFn: () => {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
    return answer(api.GET('/api/runs/days', { params: { query: { days: DAYS, timezone: timeZone } } }))
  },
  meta: { live: true },
})

const SPACING_MS = 4_000

export function useFreshOverview(): void {
  const queries = useQueryClient()
  const states = useRef(new Map<string, string>())
  const timer = useRef(0)
  useEffect(() => () => clearTimeout(timer.current), [])
  useRunEvents((events) => {
    let changed = false
    for (const event of events) {
      if (event.type === 'deleted') changed = true
      else if (states.current.get(event.run.id) !== event.run.status) {
        changed = true
        states.current.set(event.run.id, event.run.status)
      }
    }
    if (!changed || timer.current !== 0) return
    timer.current = window.setTimeout(() => {
      timer.current = 0
      void queries.invalidateQueries({ queryKey: ['home'] })
      void queries.invalidateQueries({ queryKey: ['pipelines'] })
    }, SPACING_MS)
  })
}
