import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { frame } from '../../frame-route.ts'
import type { LogSearch } from './log/log-view.tsx'

export type Period = 'hour' | 'day' | 'week' | 'month'

export interface RunsSearch {
  status?: string
  pipeline_id?: string
  triggered_by?: string
  period?: Period
  /** The id of the last run of the page before. */
  before?: string
}

const runs = createRoute({
  getParentRoute: () => frame,
  path: '/runs',
  validateSearch: readRunsSearch,
  component: lazyRouteComponent(() => import('./runs-page.tsx'), 'RunsPage'),
})

const RUN_TABS = ['log', 'output', 'quarantine', 'schema', 'config'] as const
export type RunTab = (typeof RUN_TABS)[number]

export interface RunSearch extends LogSearch {
  tab?: RunTab
  /** The query over the output. */
  sql?: string
}

const run = createRoute({
  getParentRoute: () => frame,
  path: '/runs/$id',
  validateSearch: readRunSearch,
  component: lazyRouteComponent(() => import('./run-page.tsx'), 'RunPage'),
})

export const runRoutes = [runs, run] as const

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const isOneOf = <Value extends string>(value: unknown, values: readonly Value[]): value is Value =>
  values.includes(value as Value)
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
const isId = (value: unknown): value is string => isText(value) && UUID.test(value)

function readRunsSearch(search: Record<string, unknown>): RunsSearch {
  const { status, pipeline_id, triggered_by, period, before } = search
  return {
    ...(isOneOf(status, ['pending', 'running', 'success', 'failed', 'cancelled']) && { status }),
    ...(isId(pipeline_id) && { pipeline_id }),
    ...(isText(triggered_by) && { triggered_by: triggered_by.slice(0, 20) }),
    ...(isOneOf(period, ['hour', 'day', 'week', 'month']) && { period }),
    ...(isId(before) && { before }),
  }
}

function readRunSearch({ tab, q, level, line, sql }: Record<string, unknown>): RunSearch {
  return {
    ...(isOneOf(tab, RUN_TABS) && { tab }),
    // The router reads a search for digits as a number.
    ...((isText(q) || typeof q === 'number') && { q: String(q).slice(0, 200) }),
    ...(isOneOf(level, ['debug', 'info', 'warn', 'error']) && { level }),
    ...(typeof line === 'number' && Number.isInteger(line) && line > 0 && { line }),
    ...(isText(sql) && { sql }),
  }
}
