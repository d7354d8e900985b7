/** What every address of the console hangs on: the root, and the frame that only a signed-in person sees. */
import { createRootRoute, createRoute, redirect } from '@tanstack/react-router'
import { providerReturn } from './api/provider-return.ts'
import { meQuery } from './api/queries.ts'
import { queryClient } from './api/query-client.ts'
import { getTokens } from './api/session.ts'
import { Failure, UnknownAddress } from './components/failure.tsx'
import { Frame } from './components/frame.tsx'

export const root = createRootRoute({ notFoundComponent: UnknownAddress, errorComponent: Failure })

export const frame = createRoute({
  getParentRoute: () => root,
  id: 'frame',
  component: Frame,
  beforeLoad: async ({ location }) => {
    if (providerReturn?.invitation && getTokens() !== null) {
      const token = providerReturn.invitation
      providerReturn.invitation = null
      throw redirect({ to: '/accept-invitation', search: { token } })
    }
    if (getTokens() === null)
      throw redirect({ to: '/sign-in', search: location.href === '/' ? {} : { next: location.href } })
    void queryClient.prefetchQuery(meQuery)
  },
})
