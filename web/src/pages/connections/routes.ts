import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import type { ConnectorKind } from '../../api/queries.ts'
import { frame } from '../../frame-route.ts'

const connections = createRoute({
  getParentRoute: () => frame,
  path: '/connections',
  validateSearch: (search: Record<string, unknown>): { kind?: ConnectorKind; find?: string | undefined } => ({
    ...readKind(search),
    ...(typeof search.find === 'string' && search.find !== '' && { find: search.find }),
  }),
  component: lazyRouteComponent(() => import('./connections-page.tsx'), 'ConnectionsPage'),
})

const newConnection = createRoute({
  getParentRoute: () => frame,
  path: '/connections/new',
  validateSearch: (search: Record<string, unknown>): { kind?: ConnectorKind; connector?: string } => ({
    ...readKind(search),
    ...(typeof search.connector === 'string' && { connector: search.connector }),
  }),
  component: lazyRouteComponent(() => import('./new-connection-page.tsx'), 'NewConnectionPage'),
})

const connection = createRoute({
  getParentRoute: () => frame,
  path: '/connections/$kind/$id',
  component: lazyRouteComponent(() => import('./connection-page.tsx'), 'ConnectionPage'),
})

export const connectionsRoutes = [connections, newConnection, connection] as const

function readKind({ kind }: Record<string, unknown>): { kind?: ConnectorKind } {
  return kind === 'source' || kind === 'destination' ? { kind } : {}
}
