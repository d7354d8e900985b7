/**
 * Who may do what. The table is the whole truth: docs/permissions.md is generated from it, every route names one of its
 * rows, and `can` is the only place that says yes or no.
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

/** What a role held in one domain can raise there. Everything else is about the whole organization. */
export const raisedInDomain: readonly Permission[] = [
  'pipelines:read',
  'pipelines:write',
  'pipelines:run',
  'domains:write',
]

export interface Powers {
  role: Role
  /** Role overrides by domain id. */
  domain_roles: Readonly<Record<string, Role>>
}

export const rank = (role: Role): number => ROLES.indexOf(role)

const holds = (role: Role, permission: Permission) => rank(role) >= rank(permissions[permission])

/** Whether the actor may do this, in the organization or, where one is named, in a domain of it. */
export function can(actor: Powers, permission: Permission, domainId: string | null = null): boolean {
  if (holds(actor.role, permission)) return true
  const raised =
    domainId !== null && raisedInDomain.includes(permission) ? actor.domain_roles[domainId.toLowerCase()] : undefined
  return raised !== undefined && holds(raised, permission)
}

/** Whether there is any place where the actor may do this: what a route asks before it knows the domain. */
export const canSomewhere = (actor: Powers, permission: Permission): boolean =>
  can(actor, permission) || Object.keys(actor.domain_roles).some((domainId) => can(actor, permission, domainId))

const held = Object.fromEntries(
  ROLES.map((role) => [
    role,
    (Object.keys(permissions) as Permission[]).filter((permission) => holds(role, permission)),
  ]),
) as Record<Role, Permission[]>

export const permissionsOf = (role: Role): Permission[] => held[role]

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
