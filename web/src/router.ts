/** Every address of the console; each folder of pages names its own. Pages are loaded when they are first visited. */
import { createRouter } from '@tanstack/react-router'
import { frame, root } from './frame-route.ts'
import { connectionsRoutes } from './pages/connections/routes.ts'
import { editorRoutes } from './pages/editor/routes.ts'
import { homeRoutes } from './pages/home/routes.ts'
import { peopleRoutes } from './pages/people/routes.ts'
import { pipelinesRoutes } from './pages/pipelines/routes.ts'
import { runRoutes } from './pages/run/routes.ts'
import { settingsRoutes } from './pages/settings/routes.ts'
import { signInRoutes } from './pages/sign-in/routes.ts'
import { sourcesRoutes } from './pages/sources/routes.ts'

export const router = createRouter({
  routeTree: root.addChildren([
    ...signInRoutes,
    frame.addChildren([
      ...homeRoutes,
      ...pipelinesRoutes,
      ...editorRoutes,
      ...runRoutes,
      ...connectionsRoutes,
      ...sourcesRoutes,
      ...peopleRoutes,
      ...settingsRoutes,
    ]),
  ]),
  defaultPreload: 'intent',
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
