/**
 * What an organization has, as the caller may see it, in one snapshot. `base` is a hash of the versions of all of it: two
 * equal ones mean that nothing has changed in between, so a plan still says what applying it will do.
 */

import type { ConnectorType, SavedConfig } from '../connections/saved-connectors.ts'
import { openConfig as openSealed } from '../connections/stored-credentials.ts'
import { type Queryable, raw, type Statement, sql, type Transactions } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { AppError } from '../errors.ts'
import type { SourceLanguage } from '../executors/messages.ts'
import type { PipelineConfig } from '../pipelines/config-shape.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { inVisibleDomain, visibleDomain } from '../tenancy/visibility.ts'

interface CurrentDomain {
  id: string
  name: string
  description: string | null
  color: string | null
}

export interface CurrentSource {
  id: string
  source_name: string
  name: string
  description: string | null
  language: SourceLanguage
  version: number
  /** In hexadecimal, of its code as UTF-8. */
  code_sha256: string
  /** Only for an export. */
  code?: string
}

export interface CurrentConnection {
  id: string
  name: string
  type: ConnectorType
  connector_name: string
  description: string | null
  /** Null if its key is lost. */
  config: SavedConfig | null
}

export interface CurrentPipeline {
  id: string
  name: string
  domain_id: string | null
  schedule: string | null
  timezone: string | null
  enabled: boolean
  saved_source_id: string | null
  saved_destination_id: string | null
  source_name: string | null
  config_box: Buffer
  config: PipelineConfig | null
}

/** A saved connector that a pipeline may refer to by its name. */
export type ConnectionName = Pick<CurrentConnection, 'id' | 'name' | 'type'>

export interface Current {
  base: string
  domains: CurrentDomain[]
  sources: CurrentSource[]
  connections: CurrentConnection[]
  pipelines: CurrentPipeline[]
  connectionNames: ConnectionName[]
}

/** Of all configs, and for an export of all code: it is held in memory. */
const MAX_BYTES = 12 * 1024 * 1024

const ID = raw('id')

export const mayRead = (actor: Actor) => ({
  domains: can(actor, 'domains:read', visibleDomain(actor)),
  sources: can(actor, 'custom_sources:read'),
  connections: can(actor, 'connectors:read'),
  pipelines: can(actor, 'pipelines:read', visibleDomain(actor)),
})

export function readCurrent(
  { db, box }: { db: Transactions; box: SecretBox },
  actor: Actor,
  { withCode = false }: { withCode?: boolean } = {},
): Promise<Current> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`)
    await requireSize(tx, actor, withCode)
    const may = mayRead(actor)
    const pipelines = may.pipelines ? await readPipelines(tx, box, actor) : []
    const connections = may.connections ? await readConnections(tx, box, actor) : []
    return {
      base: await readBase(tx, actor),
      domains: may.domains ? await readDomains(tx, actor) : [],
      sources: may.sources ? await readSources(tx, actor, withCode) : [],
      connections,
      pipelines,
      connectionNames: may.connections ? connections : await readUsedNames(tx, actor, pipelines),
    }
  })
}

/** With their current version; the columns are those of each kind. */
const versionsOf = (actor: Actor): Statement => {
  const own = sql`organization_id = ${actor.organization_id}`
  const may = mayRead(actor)
  const only = (readable: boolean) => (readable ? sql`` : sql` AND false`)
  return sql`
    SELECT 'd' AS kind, id, coalesce(updated_at, created_at) AS changed_at FROM domains WHERE ${own}${inVisibleDomain(actor, ID)}${only(may.domains)}
    UNION ALL SELECT 's', id, coalesce(updated_at, created_at) FROM custom_sources WHERE ${own}${only(may.sources)}
    UNION ALL SELECT 'c', id, coalesce(updated_at, created_at) FROM saved_connectors WHERE ${own}${only(may.connections)}
    UNION ALL SELECT 'p', id, coalesce(updated_at, created_at) FROM pipelines WHERE ${own}${inVisibleDomain(actor)}${only(may.pipelines)}`
}

/** In one statement, so of one moment. */
export async function readBase(db: Queryable, actor: Actor): Promise<string> {
  const row = await db.first<{ base: string }>(sql`
    SELECT encode(sha256(convert_to(coalesce(string_agg(v.kind || v.id || extract(epoch FROM v.changed_at), ' ' ORDER BY v.kind, v.id), ''), 'UTF8')), 'hex') AS base
      FROM (${versionsOf(actor)}) v`)
  return row!.base
}

async function requireSize(tx: Queryable, actor: Actor, withCode: boolean): Promise<void> {
  const own = sql`organization_id = ${actor.organization_id}`
  const code = withCode
    ? sql`+ (SELECT coalesce(sum(octet_length(v.code)), 0) FROM custom_sources c JOIN custom_source_versions v ON v.custom_source_id = c.id AND v.version = c.version WHERE c.organization_id = ${actor.organization_id})`
    : sql``
  const row = await tx.first<{ bytes: string }>(sql`
    SELECT (SELECT coalesce(sum(octet_length(config_box)), 0) FROM pipelines WHERE ${own}${inVisibleDomain(actor)})
         + (SELECT coalesce(sum(octet_length(config_box)), 0) FROM saved_connectors WHERE ${own}) ${code} AS bytes`)
  const bytes = Number(row!.bytes)
  if (bytes > MAX_BYTES)
    throw new AppError(
      'conflict',
      `The configurations of this organization have ${Math.ceil(bytes / 1024 / 1024)} MB together; at most ${MAX_BYTES / 1024 / 1024} MB can be handled at once. Use an API key of one domain, or move large inline settings into saved sources`,
    )
}

const readDomains = (tx: Queryable, actor: Actor): Promise<CurrentDomain[]> =>
  tx.query(sql`
    SELECT id, name, description, color FROM domains WHERE organization_id = ${actor.organization_id}${inVisibleDomain(actor, ID)}`)

const readSources = (tx: Queryable, actor: Actor, withCode: boolean): Promise<CurrentSource[]> =>
  tx.query(sql`
    SELECT c.id, c.source_name, c.name, c.description, c.language, c.version, encode(sha256(convert_to(v.code, 'UTF8')), 'hex') AS code_sha256
           ${withCode ? sql`, v.code` : sql``}
      FROM custom_sources c JOIN custom_source_versions v ON v.custom_source_id = c.id AND v.version = c.version
     WHERE c.organization_id = ${actor.organization_id}`)

async function readConnections(tx: Queryable, box: SecretBox, actor: Actor): Promise<CurrentConnection[]> {
  const { organization_id } = actor
  const rows = await tx.query<Omit<CurrentConnection, 'config'> & { config_box: Buffer }>(sql`
    SELECT id, name, type, connector_name, description, config_box FROM saved_connectors WHERE organization_id = ${organization_id}`)
  return rows.map(({ config_box, ...row }) => ({
    ...row,
    config: openSealed(
      box,
      { id: row.id, organization_id, table: 'saved_connectors' },
      config_box,
    ) as SavedConfig | null,
  }))
}

async function readPipelines(tx: Queryable, box: SecretBox, actor: Actor): Promise<CurrentPipeline[]> {
  const { organization_id } = actor
  const rows = await tx.query<Omit<CurrentPipeline, 'config'>>(sql`
    SELECT id, name, domain_id, schedule, timezone, enabled, saved_source_id, saved_destination_id, source_name, config_box
      FROM pipelines WHERE organization_id = ${organization_id}${inVisibleDomain(actor)}`)
  return rows.map((row) => ({
    ...row,
    config: openSealed(
      box,
      { id: row.id, organization_id, table: 'pipelines' },
      row.config_box,
    ) as PipelineConfig | null,
  }))
}

/**
 * Without connectors:read a caller knows only those connectors whose ids it sees in its pipelines. It may use these by
 * name too, but no others: a name can be guessed, an id cannot.
 */
function readUsedNames(tx: Queryable, actor: Actor, pipelines: readonly CurrentPipeline[]): Promise<ConnectionName[]> {
  const ids = pipelines.flatMap(({ saved_source_id, saved_destination_id }) =>
    [saved_source_id, saved_destination_id].filter((id) => id !== null),
  )
  return tx.query(sql`
    SELECT id, name, type FROM saved_connectors WHERE organization_id = ${actor.organization_id} AND id = ANY(${ids}::uuid[])`)
}
