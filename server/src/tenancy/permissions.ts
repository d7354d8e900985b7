/**
 * Who may do what. The table is complete: docs/permissions.md is generated from it, every route names one of its rows,
 * and `can` is the only place that says yes or no.
 */
export const ROLES = ['viewer', 'member', 'admin', 'owner'] as const
export type Role = (typeof ROLES)[number]

/** The lowest role that holds each permission. */
export const permissions = {
  'pipelines:read': 'viewer',
  'connectors:read': 'viewer',
  'custom_sources:read': 'viewer',
  'domains:read': 'viewer',
  'api_keys:read': 'viewer',
  'members:read': 'viewer',
  'pipelines:write': 'member',
  'pipelines:run': 'member',
  'connectors:write': 'member',
  'custom_sources:write': 'member',
  'api_keys:write': 'member',
  'domains:write': 'admin',
  'domains:delete': 'admin',
  'users:invite': 'admin',
  'users:manage_roles': 'admin',
  'audit:read': 'admin',
  'organization:write': 'admin',
  'webhooks:write': 'admin',
  'organization:transfer': 'owner',
} as const satisfies Record<string, Role>

export type Permission = keyof typeof permissions

/** What a domain role can add inside its domain. Everything else concerns the whole organization. */
const raisedInDomain: readonly Permission[] = ['pipelines:read', 'pipelines:write', 'pipelines:run', 'domains:write']

/** The permissions that a key of one domain can have. */
export const domainPermissions: readonly Permission[] = ['domains:read', ...raisedInDomain]

/** What no API key may do, whoever made it. */
const personOnly: readonly Permission[] = ['organization:transfer']

export const keyPermissions = (Object.keys(permissions) as Permission[]).filter((name) => !personOnly.includes(name))

/** The limits of an API key. Without any it may do everything that its creator may do. */
export interface KeyScope {
  role?: Role
  permissions?: Permission[]
  /** The key reaches this domain and its pipelines, and nothing else. */
  domain_id?: string
}

export interface Powers {
  role: Role
  /** Role overrides by domain id. */
  domain_roles: Readonly<Record<string, Role>>
  /** Null for a person, an object for an API key. */
  scope: KeyScope | null
}

export const rank = (role: Role): number => ROLES.indexOf(role)

const holds = (role: Role, permission: Permission) => rank(role) >= rank(permissions[permission])

export const isLimited = (scope: KeyScope | null): boolean => scope !== null && Object.keys(scope).length > 0

export const lesserRole = (role: Role, limit: Role | undefined): Role =>
  limit !== undefined && rank(limit) < rank(role) ? limit : role

function withinScope(scope: KeyScope | null, permission: Permission, domainId: string | null): boolean {
  if (scope === null) return true
  if (personOnly.includes(permission)) return false
  if (scope.role !== undefined && !holds(scope.role, permission)) return false
  if (scope.permissions !== undefined && !scope.permissions.includes(permission)) return false
  if (scope.domain_id === undefined) return true
  return domainPermissions.includes(permission) && domainId?.toLowerCase() === scope.domain_id
}

/** Whether the actor may do this, in the organization or, where one is named, in a domain of it. */
export function can(actor: Powers, permission: Permission, domainId: string | null = null): boolean {
  if (!withinScope(actor.scope, permission, domainId)) return false
  if (holds(actor.role, permission)) return true
  const raised =
    domainId !== null && raisedInDomain.includes(permission) ? actor.domain_roles[domainId.toLowerCase()] : undefined
  return raised !== undefined && holds(raised, permission)
}

/** Whether the actor may do this in some domain at least: a route checks this before it knows the domain. */
export const canSomewhere = (actor: Powers, permission: Permission): boolean =>
  can(actor, permission, actor.scope?.domain_id ?? null) ||
  Object.keys(actor.domain_roles).some((domainId) => can(actor, permission, domainId))

/** What the actor may do in the whole organization or, with a key of one domain, in that domain. */
export const permissionsOf = (actor: Powers): Permission[] =>
  (Object.keys(permissions) as Permission[]).filter((name) => can(actor, name, actor.scope?.domain_id ?? null))

export function permissionsTable(): string {
  const rows = (Object.keys(permissions) as Permission[]).map(
    (permission) =>
      `| \`${permission}\` | ${ROLES.map((role) => (holds(role, permission) ? 'yes' : '–')).join(' | ')} | ${raisedInDomain.includes(permission) ? 'yes' : '–'} |`,
  )
  return [
    `| Permission | ${ROLES.join(' | ')} | raised by a domain role |`,
    `|---|${ROLES.map(() => '---|').join('')}---|`,
    ...rows,
  ].join('\n')
}
