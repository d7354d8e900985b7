/** The available connectors: the built-in ones, and among the sources also the organization's custom ones. */
import { authenticationTypes } from '../connectors/authentication/authentication.ts'
import type { Source } from '../connectors/contract.ts'
import { destinations, sources } from '../connectors/registry.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { declareCustom, type StoredSchema } from './references.ts'
import { firstThatFit, type ShownStreams, shownStreams } from './shown-streams.ts'
import { exampleOfHint, settingsSchemaOf } from './type-hints.ts'

/** Code is inspected to tell what a source can do, and may be half a megabyte each. */
const READ_AT_ONCE = 20

export interface ConnectorInfo {
  name: string
  display_name: string
  description: string
  example_config: Record<string, unknown>
  config_schema: Record<string, unknown>
  capabilities: Record<string, unknown>
}

export interface SourceInfo extends ConnectorInfo, ShownStreams {
  auth_types: string[]
  /** Of a source that the organization has written. */
  language: 'python' | 'manifest' | null
}

export async function listSources(db: Queryable, actor: Actor): Promise<SourceInfo[]> {
  const all = sources.map(describeSource)
  if (!can(actor, 'custom_sources:read')) return all
  for (let after = ''; ; ) {
    const custom = await db.query<CustomInfoRow>(sql`
      SELECT c.id, c.name, c.source_name, c.description, c.version, c.language, ${shownStreams}, CASE WHEN c.language = 'python' THEN v.code ELSE '' END AS code, v.config_schema
        FROM custom_sources c JOIN custom_source_versions v ON v.custom_source_id = c.id AND v.version = c.version
       WHERE c.organization_id = ${actor.organization_id} AND c.source_name > ${after} ORDER BY c.source_name LIMIT ${READ_AT_ONCE}`)
    all.push(...custom.map(describeCustom))
    if (custom.length < READ_AT_ONCE) return all
    after = custom.at(-1)!.source_name
  }
}

export const listDestinations = (): ConnectorInfo[] =>
  destinations.map(({ name, display_name, description, example_config, settings, capabilities }) => ({
    name,
    display_name,
    description,
    example_config,
    config_schema: settings as unknown as Record<string, unknown>,
    capabilities: { ...capabilities },
  }))

const describeSource = (source: Omit<Source, 'check' | 'listStreams' | 'describe' | 'read'>): SourceInfo => ({
  name: source.name,
  display_name: source.display_name,
  description: source.description,
  streams: source.streams === 'dynamic' ? ['dynamic'] : [...source.streams],
  stream_count: source.streams === 'dynamic' ? null : source.streams.length,
  auth_types: [...source.auth_types],
  language: null,
  example_config: source.example_config,
  config_schema: source.settings as unknown as Record<string, unknown>,
  capabilities: { ...source.capabilities },
})

interface CustomInfoRow extends ShownStreams {
  id: string
  name: string
  source_name: string
  description: string | null
  version: number
  language: 'python' | 'manifest'
  code: string
  config_schema: StoredSchema
}

function describeCustom(row: CustomInfoRow): SourceInfo {
  const all = row.config_schema.config_fields ?? []
  const fields = firstThatFit(all)
  const type = row.config_schema.auth_type
  const source = describeSource(declareCustom(row))
  // Where not all settings are shown, an example could not be complete.
  const required = fields.length < all.length ? [] : fields.filter((field) => field.required)
  const examples = required.map(({ name, type_hint }) => [name, exampleOfHint(type_hint)])
  return {
    ...source,
    example_config: { ...source.example_config, config: Object.fromEntries(examples) },
    stream_count: row.stream_count,
    language: row.language,
    display_name: row.name,
    description: row.description ?? '',
    auth_types: type ? [type] : Object.keys(authenticationTypes),
    config_schema: shownSettings(row.config_schema) ?? {
      ...settingsSchemaOf(fields),
      ...(fields.length < all.length && { truncated: true }),
    },
  }
}

/** The whole schema of a manifest's settings, where it is not too large for a list. */
function shownSettings({ settings }: StoredSchema): Record<string, unknown> | null {
  if (settings === undefined || JSON.stringify(settings).length > LONGEST_SCHEMA) return null
  return settings
}

const LONGEST_SCHEMA = 32 * 1024
