import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { frame } from '../../frame-route.ts'

/** The same pipeline as a form or as JSON. */
interface EditorSearch {
  view?: 'json'
}

export interface NewPipelineSearch extends EditorSearch {
  /** The source to begin with, by name. */
  source?: string
}

const readSearch = ({ view }: Record<string, unknown>): EditorSearch => (view === 'json' ? { view } : {})

const newPipeline = createRoute({
  getParentRoute: () => frame,
  path: '/pipelines/new',
  validateSearch: (search: Record<string, unknown>): NewPipelineSearch => ({
    ...readSearch(search),
    ...(typeof search.source === 'string' && { source: search.source }),
  }),
  component: lazyRouteComponent(() => import('./editor-page.tsx'), 'NewPipelinePage'),
})

const editPipeline = createRoute({
  getParentRoute: () => frame,
  path: '/pipelines/$id/edit',
  validateSearch: readSearch,
  component: lazyRouteComponent(() => import('./editor-page.tsx'), 'EditPipelinePage'),
})

export const editorRoutes = [newPipeline, editPipeline] as const
