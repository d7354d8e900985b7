import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { frame } from '../../frame-route.ts'

export interface PipelineSearch {
  q?: string
  status?: string
  source?: string
  destination?: string
  domain_id?: string
  enabled?: boolean
  scheduled?: boolean
  sort?: string
}

/** What the tabs of a pipeline keep in the address. */
interface PipelineTabSearch {
  status?: string
  page?: number
  runs?: number
}

export const PIPELINE_TABS = ['charts', 'schema', 'state', 'settings', 'audit'] as const
/** The first tab has the address of the pipeline itself. */
export type PipelineTab = 'runs' | (typeof PIPELINE_TABS)[number]

const pipelines = createRoute({
  getParentRoute: () => frame,
  path: '/pipelines',
  validateSearch: readPipelineSearch,
  component: lazyRouteComponent(() => import('./pipelines-page.tsx'), 'PipelinesPage'),
})

const pipeline = createRoute({
  getParentRoute: () => frame,
  path: '/pipelines/$id',
  validateSearch: readTabSearch,
  component: lazyRouteComponent(() => import('./pipeline-page.tsx'), 'PipelinePage'),
})

const pipelineTab = createRoute({
  getParentRoute: () => frame,
  path: '/pipelines/$id/$tab',
  validateSearch: readTabSearch,
  component: lazyRouteComponent(() => import('./pipeline-page.tsx'), 'PipelinePage'),
})

export const pipelinesRoutes = [pipelines, pipeline, pipelineTab] as const

function readPipelineSearch(search: Record<string, unknown>): PipelineSearch {
  const texts = ['q', 'status', 'source', 'destination', 'domain_id', 'sort'] as const
  const flags = ['enabled', 'scheduled'] as const
  const found: PipelineSearch = {}
  for (const name of texts) {
    const value = search[name]
    // A search for digits arrives as a number.
    if ((typeof value === 'string' && value !== '') || typeof value === 'number') found[name] = String(value)
  }
  for (const name of flags) {
    const value = search[name]
    if (typeof value === 'boolean') found[name] = value
  }
  return found
}

function readTabSearch(search: Record<string, unknown>): PipelineTabSearch {
  const found: PipelineTabSearch = {}
  if (typeof search.status === 'string' && search.status !== '') found.status = search.status
  for (const name of ['page', 'runs'] as const) {
    const value = search[name]
    if (typeof value === 'number' && Number.isInteger(value) && value > 0) found[name] = value
  }
  return found
}
