import { createRoute, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { frame } from '../../frame-route.ts'

const settings = createRoute({
  getParentRoute: () => frame,
  path: '/settings',
  component: lazyRouteComponent(() => import('./settings-layout.tsx'), 'SettingsLayout'),
})

const start = createRoute({
  getParentRoute: () => settings,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/settings/organization', replace: true })
  },
})

const organization = createRoute({
  getParentRoute: () => settings,
  path: '/organization',
  component: lazyRouteComponent(() => import('./organization-page.tsx'), 'OrganizationPage'),
})

const domains = createRoute({
  getParentRoute: () => settings,
  path: '/domains',
  component: lazyRouteComponent(() => import('./domains-page.tsx'), 'DomainsPage'),
})

const apiKeys = createRoute({
  getParentRoute: () => settings,
  path: '/api-keys',
  component: lazyRouteComponent(() => import('./api-keys-page.tsx'), 'ApiKeysPage'),
})

const webhooks = createRoute({
  getParentRoute: () => settings,
  path: '/webhooks',
  component: lazyRouteComponent(() => import('./webhooks-page.tsx'), 'WebhooksPage'),
})

const webhook = createRoute({
  getParentRoute: () => settings,
  path: '/webhooks/$id',
  component: lazyRouteComponent(() => import('./webhook-page.tsx'), 'WebhookPage'),
})

const alerts = createRoute({
  getParentRoute: () => settings,
  path: '/alerts',
  component: lazyRouteComponent(() => import('./alerts-page.tsx'), 'AlertsPage'),
})

const alert = createRoute({
  getParentRoute: () => settings,
  path: '/alerts/$id',
  component: lazyRouteComponent(() => import('./alert-page.tsx'), 'AlertPage'),
})

export interface AuditSearch {
  actor?: string | undefined
  action?: string | undefined
  type?: string | undefined
  object?: string | undefined
  since?: string | undefined
  until?: string | undefined
  before?: number | undefined
}

const audit = createRoute({
  getParentRoute: () => settings,
  path: '/audit',
  validateSearch: (search: Record<string, unknown>): AuditSearch => ({
    ...texts(search, ['actor', 'action', 'type', 'object', 'since', 'until']),
    ...(typeof search.before === 'number' && { before: search.before }),
  }),
  component: lazyRouteComponent(() => import('./audit-page.tsx'), 'AuditPage'),
})

const profile = createRoute({
  getParentRoute: () => settings,
  path: '/profile',
  component: lazyRouteComponent(() => import('./profile-page.tsx'), 'ProfilePage'),
})

const password = createRoute({
  getParentRoute: () => settings,
  path: '/password',
  component: lazyRouteComponent(() => import('./password-page.tsx'), 'PasswordPage'),
})

const sessions = createRoute({
  getParentRoute: () => settings,
  path: '/sessions',
  component: lazyRouteComponent(() => import('./sessions-page.tsx'), 'SessionsPage'),
})

const appearance = createRoute({
  getParentRoute: () => settings,
  path: '/appearance',
  component: lazyRouteComponent(() => import('./appearance-page.tsx'), 'AppearancePage'),
})

export const settingsRoutes = [
  settings.addChildren([
    start,
    organization,
    domains,
    apiKeys,
    webhooks,
    webhook,
    alerts,
    alert,
    audit,
    profile,
    password,
    sessions,
    appearance,
  ]),
] as const

/** An address may have been typed: a search value that looks like a number comes as one. */
function texts<Name extends string>(search: Record<string, unknown>, names: readonly Name[]): { [N in Name]?: string } {
  return Object.fromEntries(
    names.flatMap((name) =>
      (typeof search[name] === 'string' && search[name] !== '') || typeof search[name] === 'number'
        ? [[name, String(search[name])]]
        : [],
    ),
  ) as { [N in Name]?: string }
}
