import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { frame } from '../../frame-route.ts'

const home = createRoute({
  getParentRoute: () => frame,
  path: '/',
  component: lazyRouteComponent(() => import('./home-page.tsx'), 'HomePage'),
})

export const homeRoutes = [home] as const
