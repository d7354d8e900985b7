import { createRoute, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { frame } from '../../frame-route.ts'
import type { SourceLanguage } from './authored.ts'

export interface SourcesSearch {
  q?: string
  language?: SourceLanguage
}

interface NewSourceSearch {
  template?: string
  language?: SourceLanguage
}

export type SourceTab = 'versions' | 'uses' | 'details'

export interface SourceSearch {
  /** The code where it is absent. */
  tab?: SourceTab
  /** The version that the difference shows. */
  version?: number
}

type Search = Record<string, unknown>

const sources = createRoute({
  getParentRoute: () => frame,
  path: '/sources',
  validateSearch: (search: Search): SourcesSearch => ({
    ...(typeof search.q === 'string' && search.q !== '' && { q: search.q }),
    ...readLanguage(search),
  }),
  component: lazyRouteComponent(() => import('./sources-page.tsx'), 'SourcesPage'),
})

const newSource = createRoute({
  getParentRoute: () => frame,
  path: '/sources/new',
  validateSearch: (search: Search): NewSourceSearch => ({
    ...(typeof search.template === 'string' && { template: search.template }),
    ...readLanguage(search),
  }),
  component: lazyRouteComponent(() => import('./new-source-page.tsx'), 'NewSourcePage'),
})

const source = createRoute({
  getParentRoute: () => frame,
  path: '/sources/$id',
  validateSearch: readSource,
  component: lazyRouteComponent(() => import('./source-page.tsx'), 'PythonSourcePage'),
})

/** Below `/sources`, so that the rail shows where one is. */
const manifest = createRoute({
  getParentRoute: () => frame,
  path: '/sources/manifests/$id',
  validateSearch: readSource,
  component: lazyRouteComponent(() => import('./source-page.tsx'), 'ManifestPage'),
})

/** Its short address. */
const manifestAlias = createRoute({
  getParentRoute: () => frame,
  path: '/manifests/$id',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/sources/manifests/$id', params })
  },
})

export const sourcesRoutes = [sources, newSource, source, manifest, manifestAlias] as const

function readLanguage({ language }: Search): { language?: SourceLanguage } {
  return language === 'python' || language === 'yaml' ? { language } : {}
}

function readSource({ tab, version }: Search): SourceSearch {
  return {
    ...((tab === 'versions' || tab === 'uses' || tab === 'details') && { tab }),
    ...(typeof version === 'number' && Number.isInteger(version) && version > 0 && { version }),
  }
}
