import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { frame } from '../../frame-route.ts'

const people = createRoute({
  getParentRoute: () => frame,
  path: '/people',
  component: lazyRouteComponent(() => import('./members-page.tsx'), 'MembersPage'),
})

const invitations = createRoute({
  getParentRoute: () => frame,
  path: '/people/invitations',
  component: lazyRouteComponent(() => import('./invitations-page.tsx'), 'InvitationsPage'),
})

const member = createRoute({
  getParentRoute: () => frame,
  path: '/people/$id',
  component: lazyRouteComponent(() => import('./member-page.tsx'), 'MemberPage'),
})

export const peopleRoutes = [people, invitations, member] as const
