/**
 * The references of a config, loaded in one statement: saved connectors, a custom source, the domain, and the database's
 * clock. Only rows of the same organization are found.
 */

import { DYNAMIC_STREAMS, declareSource, type SourceDeclaration } from '../cell/declaration.ts'
import type { ExtractedSchema } from '../cell/validate.ts'
import type { Source, SourceCapabilities } from '../connectors/contract.ts'
import { findSource } from '../connectors/registry.ts'
import { applyDefaults, findSettingsFaults, isObject } from '../connectors/settings/settings.ts'
import { type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { type SecretBox, SecretLost } from '../database/secret-box.ts'
import type { SourceLanguage } from '../executors/messages.ts'
import type { Json } from '../json/json.ts'
import { Type } from '../schema.ts'
import type { SavedSourceConfig } from './endpoint-shape.ts'
import { schemaOfHint } from './type-hints.ts'

export interface SavedRow {
  id: string
  organization_id: string
  type: 'source' | 'destination'
  name: string
  connector_name: string
  config_box: Buffer
}

export interface CustomRow {
  id: string
  source_name: string
  version: number
  streams: string[]
  code: string
  config_schema: StoredSchema
  language: SourceLanguage
}

/** What validation found of the settings. Versions of an earlier release do not say whether they are enforced. */
export type StoredSchema = Partial<ExtractedSchema> & {
  enforced?: boolean
  /** Of a manifest: the JSON schema of its settings. */
  settings?: Record<string, unknown>
}

/** The rows that a config refers to. */
export interface ConnectorReferences {
  source: SavedRow | null
  destination: SavedRow | null
  custom: CustomRow | null
}

export interface References extends ConnectorReferences {
  now: Date
  domain: { id: string; name: string } | null
}

/** The ids and names in a config of any shape. Malformed ones are left out here and refused by the check. */
export interface Wanted {
  source_id: string | null
  source_name: string | null
  destination_id: string | null
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export function wantedBy(config: unknown): Wanted {
  const part = (name: string) => (isObject(config) && isObject(config[name]) ? config[name] : {})
  const id = (value: unknown) => (typeof value === 'string' && UUID.test(value) ? value.toLowerCase() : null)
  const { name, saved_connector_id } = part('source')
  return {
    source_id: id(saved_connector_id),
    source_name: typeof name === 'string' ? name : null,
    destination_id: id(part('destination').saved_connector_id),
  }
}

interface ReferenceRow extends ConnectorReferences {
  now: string
  domain: { id: string; name: string } | null
}

const savedAs = (alias: Statement) => sql`
  CASE WHEN ${alias}.id IS NOT NULL THEN json_build_object('id', ${alias}.id, 'organization_id', ${alias}.organization_id, 'type', ${alias}.type,
    'name', ${alias}.name, 'connector_name', ${alias}.connector_name, 'config_box', encode(${alias}.config_box, 'base64')) END`
const SOURCE = savedAs(raw('s'))
const DESTINATION = savedAs(raw('d'))

export async function loadReferences(
  db: Queryable,
  organizationId: string,
  wanted: Wanted,
  domainId: string | null = null,
): Promise<References> {
  const row = (await db.first<ReferenceRow>(sql`
    SELECT now() AS now, ${SOURCE} AS source, ${DESTINATION} AS destination,
           CASE WHEN c.id IS NOT NULL THEN json_build_object('id', c.id, 'source_name', c.source_name, 'version', c.version, 'streams', v.streams, 'code', v.code, 'config_schema', v.config_schema, 'language', c.language) END AS custom,
           CASE WHEN g.id IS NOT NULL THEN json_build_object('id', g.id, 'name', g.name) END AS domain
      FROM (SELECT ${organizationId}::uuid AS id) o
      LEFT JOIN saved_connectors s ON s.organization_id = o.id AND s.id = ${wanted.source_id}
      LEFT JOIN saved_connectors d ON d.organization_id = o.id AND d.id = ${wanted.destination_id}
      LEFT JOIN custom_sources c ON c.organization_id = o.id AND c.source_name = coalesce(s.connector_name, ${wanted.source_name}::text)
      LEFT JOIN custom_source_versions v ON v.custom_source_id = c.id AND v.version = c.version
      LEFT JOIN domains g ON g.organization_id = o.id AND g.id = ${domainId}`))!
  return toReferences(row)
}

function toReferences(row: ReferenceRow): References {
  const opened = (saved: SavedRow | null) =>
    saved && { ...saved, config_box: Buffer.from(saved.config_box as unknown as string, 'base64') }
  return { ...row, now: new Date(row.now), source: opened(row.source), destination: opened(row.destination) }
}

/**
 * The same for many configs of many organizations, in their order; without code, which may be large. Every row is loaded
 * once: hundreds of pipelines may use the same saved connector.
 */
export async function loadManyReferences(
  db: Queryable,
  wanted: (Wanted & { organization_id: string })[],
): Promise<ConnectorReferences[]> {
  const saved = await loadSaved(db, wanted)
  const found = wanted.map(({ organization_id, source_id, destination_id, source_name }) => {
    const source = saved.get(keyOf(organization_id, source_id)) ?? null
    const destination = saved.get(keyOf(organization_id, destination_id)) ?? null
    return { organization_id, source, destination, source_name: source?.connector_name ?? source_name }
  })
  const custom = await loadCustom(db, found)
  return found.map(({ organization_id, source, destination, source_name }) => ({
    source,
    destination,
    custom: custom.get(keyOf(organization_id, source_name)) ?? null,
  }))
}

const keyOf = (organizationId: string, name: string | null): string => `${organizationId} ${name ?? ''}`

async function loadSaved(
  db: Queryable,
  wanted: (Wanted & { organization_id: string })[],
): Promise<Map<string, SavedRow>> {
  const pairs = wanted.flatMap(({ organization_id, source_id, destination_id }) =>
    [source_id, destination_id].filter((id) => id !== null).map((id) => ({ organization_id, id })),
  )
  if (pairs.length === 0) return new Map()
  const rows = await db.query<SavedRow>(sql`
    SELECT s.id, s.organization_id, s.type, s.name, s.connector_name, s.config_box FROM saved_connectors s
     WHERE (s.organization_id, s.id) IN (SELECT * FROM unnest(${pairs.map((pair) => pair.organization_id)}::uuid[], ${pairs.map((pair) => pair.id)}::uuid[]))`)
  return new Map(rows.map((row) => [keyOf(row.organization_id, row.id), row]))
}

async function loadCustom(
  db: Queryable,
  wanted: { organization_id: string; source_name: string | null }[],
): Promise<Map<string, CustomRow>> {
  const custom = wanted.filter(({ source_name }) => source_name !== null && !findSource(source_name))
  if (custom.length === 0) return new Map()
  const rows = await db.query<CustomRow & { organization_id: string }>(sql`
    SELECT c.organization_id, c.id, c.source_name, c.version, v.streams, '' AS code, v.config_schema, c.language
      FROM custom_sources c JOIN custom_source_versions v ON v.custom_source_id = c.id AND v.version = c.version
     WHERE (c.organization_id, c.source_name) IN (SELECT * FROM unnest(${custom.map((each) => each.organization_id)}::uuid[], ${custom.map((each) => each.source_name)}::text[]))`)
  return new Map(rows.map((row) => [keyOf(row.organization_id, row.source_name), row]))
}

export const placeOfSaved = (row: Pick<SavedRow, 'id' | 'organization_id'>) => ({
  organization_id: row.organization_id,
  column: 'saved_connectors.config_box',
  row_id: row.id,
})

/** A saved config, or the message why it cannot be decrypted. */
export function openSaved(
  box: SecretBox,
  row: SavedRow,
): { config: SavedSourceConfig & Record<string, Json>; lost: null } | { config: null; lost: string } {
  try {
    return { config: box.open(placeOfSaved(row), row.config_box), lost: null }
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    return { config: null, lost: `The saved ${row.type} '${row.name}' cannot be decrypted. ${error.message}` }
  }
}

/**
 * The outputs that a source wants to read with these settings, which must be resolved: a saved source may name a run too.
 * Invalid settings name none, because no run starts with them.
 */
export function outputsOf(source: Source | undefined, settings: unknown): string[] {
  if (!source?.outputs || findSettingsFaults(source.settings, settings, '').length > 0) return []
  const wanted = source.outputs(applyDefaults(source.settings, settings))
  return wanted.filter((id) => UUID.test(id)).map((id) => id.toLowerCase())
}

/** What a check needs to know about a source, built in or custom. */
export interface SourceTraits {
  name: string
  streams: readonly string[] | 'dynamic'
  /** Null: any type, with any params. */
  auth_types: readonly string[] | null
  settings: Source['settings']
  canonical?: Source['canonical']
  capabilities: Pick<SourceCapabilities, 'incremental' | 'own_cursor'>
}

/** A custom source whose get_streams has to ask a server first. */
export const isDynamic = (streams: readonly string[]): boolean => streams.length === 1 && streams[0] === DYNAMIC_STREAMS

export function findTraits(name: string, custom: CustomRow | null): SourceTraits | null {
  const source = findSource(name)
  if (source) return source
  if (custom === null || custom.source_name !== name) return null
  const { capabilities } = custom.language === 'manifest' ? findSource('manifest')! : declareCustom(custom)
  return {
    name,
    streams: isDynamic(custom.streams) ? 'dynamic' : custom.streams,
    auth_types: null,
    settings: settingsOf(custom.config_schema),
    capabilities: { ...capabilities, own_cursor: true },
  }
}

/** Any settings; those that a run would miss are required, and those that it would refuse are refused. */
function settingsOf({ config_fields = [], enforced = false }: StoredSchema): Source['settings'] {
  const properties = (enforced ? config_fields : []).map(({ name, type_hint, required }) => {
    const schema = { ...(schemaOfHint(type_hint) ?? Type.Unknown()), ...(type_hint && { description: type_hint }) }
    return [name, required ? schema : Type.Optional(schema)]
  })
  return Type.Object(Object.fromEntries(properties), { additionalProperties: true })
}

/** A custom source in the same form as the others. Its code only runs in executors. */
export const declareCustom = (custom: Omit<CustomRow, 'config_schema' | 'language'>): SourceDeclaration =>
  declareSource({
    source_name: custom.source_name,
    display_name: custom.source_name,
    description: '',
    code: custom.code,
    streams: custom.streams,
  })
