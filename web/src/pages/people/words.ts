/** Roles and permissions in words. */
import type { Permission, Role } from '../../../../server/src/tenancy/permissions.ts'

export const ROLE_WORDS: Record<Role, string> = {
  viewer: 'Sees everything, changes nothing',
  member: 'Creates, edits and runs pipelines, connections and sources',
  admin: 'Also manages people, domains, alerts, webhooks and the organization',
  owner: 'Everything, and may pass the ownership on',
}

export const PERMISSION_WORDS: Record<Permission, string> = {
  'pipelines:read': 'See pipelines, runs, logs and outputs',
  'connectors:read': 'See connections',
  'custom_sources:read': 'See custom sources and their code',
  'domains:read': 'See domains',
  'api_keys:read': 'See API keys, never the key itself',
  'members:read': 'See who belongs to the organization',
  'pipelines:write': 'Create, change and delete pipelines',
  'pipelines:run': 'Run and cancel pipelines',
  'connectors:write': 'Create, change and delete connections',
  'custom_sources:write': 'Write custom sources, which is to run code',
  'api_keys:write': 'Create API keys and revoke their own',
  'domains:write': 'Create and change domains',
  'domains:delete': 'Delete domains',
  'users:invite': 'Invite people',
  'users:manage_roles': 'Change roles, give domain roles, remove people',
  'audit:read': 'Read the audit log',
  'organization:write': 'Rename the organization',
  'webhooks:write': 'Manage webhooks and alerts',
  'organization:transfer': 'Transfer the ownership',
}
