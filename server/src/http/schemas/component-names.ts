/**
 * The names that schemas have in the API reference, and so the types and classes of generated clients. A schema is named
 * after its export, so a new one has a name without being listed here. The name is its `title`: that survives all the
 * copying on the way to the reference, and nothing else reads it.
 */
import * as alerts from './alerts.ts'
import * as apiKeys from './api-keys.ts'
import * as audit from './audit.ts'
import * as auth from './auth.ts'
import * as changes from './changes.ts'
import * as common from './common.ts'
import * as connectors from './connectors.ts'
import * as customSources from './custom-sources.ts'
import * as domainRoles from './domain-roles.ts'
import * as domains from './domains.ts'
import * as invitations from './invitations.ts'
import * as manifests from './manifests.ts'
import * as organization from './organization.ts'
import * as outputQueries from './output-queries.ts'
import * as overview from './overview.ts'
import * as pipelineActions from './pipeline-actions.ts'
import * as pipelinePreviews from './pipeline-previews.ts'
import * as pipelines from './pipelines.ts'
import * as provider from './provider.ts'
import * as runs from './runs.ts'
import * as users from './users.ts'
import * as webhooks from './webhooks.ts'

/** Where the export's own name, without `View`, says too little outside of its file. */
const RENAMED: Record<string, string> = {
  Problem: 'Error',
  RoleName: 'Role',
  RunStatusName: 'RunStatus',
  PipelineWithConfig: 'Pipeline',
  PipelineView: 'PipelineSummary',
  RunDetail: 'Run',
  RunItem: 'RunListItem',
  RunOfOrganization: 'OrganizationRun',
  StateView: 'PipelineState',
  WriteState: 'WritePipelineState',
  SchemaView: 'PipelineSchema',
  Ticket: 'OutputTicket',
  Logs: 'RunLogs',
  Cancelled: 'CancelledRun',
  Probe: 'ConnectorProbe',
  StreamsProbe: 'ConnectorStreamsProbe',
  SourceInfo: 'SourceConnector',
  DestinationInfo: 'DestinationConnector',
  CustomSourceCreated: 'CreatedCustomSource',
  CustomSourceItem: 'CustomSourceListItem',
  VersionView: 'CustomSourceVersion',
  VersionItem: 'CustomSourceVersionListItem',
  DeliveryView: 'WebhookDelivery',
  Acceptance: 'AcceptedInvitation',
  InvitationItem: 'Invitation',
  ApiKeyItem: 'ApiKey',
  DomainItem: 'DomainListItem',
  Switch: 'SwitchOrganization',
  ManifestItem: 'ManifestListItem',
  ManifestCreated: 'CreatedManifest',
  ManifestVersionItem: 'ManifestVersionListItem',
}

const modules: Record<string, unknown>[] = [
  alerts,
  apiKeys,
  audit,
  auth,
  changes,
  common,
  connectors,
  customSources,
  domainRoles,
  domains,
  invitations,
  manifests,
  organization,
  outputQueries,
  overview,
  pipelineActions,
  pipelinePreviews,
  pipelines,
  provider,
  runs,
  users,
  webhooks,
]

export function nameSchemas(): void {
  for (const [name, value] of modules.flatMap((module) => Object.entries(module))) {
    const schema = value as { title?: string; properties?: object; enum?: unknown[] }
    if (schema.properties || schema.enum) schema.title ??= RENAMED[name] ?? name.replace(/View$/, '')
  }
}
