/**
 * Manifests: the YAML of a declarative source under a source_name, kept in versions. They are custom sources in another
 * language, in the same tables, so names are unique across both and whatever refers to a source by name finds either.
 * A manifest is compiled in executors only.
 */
import { randomUUID } from 'node:crypto'
import { DYNAMIC_STREAMS } from '../cell/declaration.ts'
import { isDatabaseError, type Queryable, sql, type Transactions, UNIQUE_VIOLATION } from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import type { Answers } from '../executors/answers.ts'
import { trimError } from '../executors/reports.ts'
import type { Actor } from '../tenancy/actor.ts'
import { audit, auditStatement, fieldsOf } from '../tenancy/audit.ts'
import { type CellServices, requireFreeName, requireRoom } from './custom-sources.ts'
import type { StoredSchema } from './references.ts'
import { type ShownStreams, shownStreams } from './shown-streams.ts'
import { requireUnused, type SourceUse, sourceUse } from './uses.ts'

interface Finding {
  line: number
  column: number
  message: string
  severity: 'error' | 'warning'
}

export interface ManifestValidation {
  valid: boolean
  /** Whether all streams run, some of them, or none. */
  runs: 'whole' | 'part' | 'no'
  errors: Finding[]
  warnings: Finding[]
  extracted_streams: string[] | null
  settings_schema: Record<string, unknown> | null
}

interface ManifestRow {
  id: string
  name: string
  source_name: string
  streams: string[]
  description: string | null
  version: number
  created_at: string
}

export interface Manifest extends ManifestRow {
  manifest: string
  settings_schema: Record<string, unknown>
  updated_at: string | null
}

interface ManifestVersion {
  version: number
  streams: string[]
  created_by_name: string | null
  created_at: string
}

const MAX_BYTES = 2 * 1024 * 1024

const fields = sql`c.id, c.name, c.source_name, c.description, c.version, c.created_at`
const current = sql`custom_sources c JOIN custom_source_versions v ON v.custom_source_id = c.id AND v.version = c.version AND c.language = 'manifest'`
const settingsSchema = sql`coalesce(v.config_schema->'settings', '{}') AS settings_schema`

export async function validateManifest(
  { calls }: CellServices,
  actor: Actor,
  manifest: string,
  signal: AbortSignal,
): Promise<ManifestValidation> {
  const bytes = Buffer.byteLength(manifest)
  if (bytes > MAX_BYTES)
    throw new AppError(
      'invalid_input',
      `manifest: is too large (${Math.ceil(bytes / 1024)} KB); at most 2 MB are allowed`,
    )
  const result = await calls.run(actor.organization_id, 'validate_manifest', { manifest }, { signal })
  if (!result.ok) return unreadable(trimError(result.message))
  return toValidation(result.answer)
}

function toValidation({
  runs,
  streams,
  dynamic,
  findings,
  settings_schema,
}: Answers['validate_manifest']): ManifestValidation {
  const errors = findings.filter(({ severity }) => severity === 'error')
  const valid = runs !== 'no'
  return {
    valid,
    runs,
    errors,
    warnings: findings.filter(({ severity }) => severity === 'warning'),
    extracted_streams: valid ? (dynamic ? [DYNAMIC_STREAMS] : streams) : null,
    settings_schema: valid ? (JSON.parse(settings_schema) as Record<string, unknown>) : null,
  }
}

function unreadable(reason: string): ManifestValidation {
  const finding: Finding = { line: 1, column: 0, message: `the manifest cannot be read: ${reason}`, severity: 'error' }
  return { valid: false, runs: 'no', errors: [finding], warnings: [], extracted_streams: null, settings_schema: null }
}

export function listManifests(
  db: Queryable,
  actor: Actor,
  page: Paging,
): Promise<Listed<ManifestRow & ShownStreams & SourceUse>> {
  const matching = sql`FROM ${current} WHERE c.organization_id = ${actor.organization_id}`
  return readList(
    db,
    page,
    sql`SELECT ${fields}, ${shownStreams}, ${sourceUse} ${matching} ORDER BY c.created_at DESC, c.id`,
    sql`SELECT 1 ${matching}`,
  )
}

export async function readManifest(db: Queryable, actor: Actor, id: string): Promise<Manifest> {
  const row = await db.first<Manifest>(sql`
    SELECT ${fields}, v.streams, v.code AS manifest, ${settingsSchema}, c.updated_at
      FROM ${current} WHERE c.organization_id = ${actor.organization_id} AND c.id = ${id}`)
  if (!row) throw notFound('Manifest')
  return row
}

interface NewManifest {
  name: string
  source_name: string
  manifest: string
  description?: string | null
}

export async function createManifest(
  services: CellServices,
  actor: Actor,
  input: NewManifest,
  signal: AbortSignal,
): Promise<Manifest> {
  requireFreeName(input.source_name)
  // Before the transaction: a connection should not wait for a tenant's manifest.
  const checked = await requireValid(services, actor, input.manifest, signal)
  return storeNewManifest(services.db, actor, input, checked)
}

export async function storeNewManifest(
  db: Transactions,
  actor: Actor,
  input: NewManifest,
  checked: ManifestValidation,
): Promise<Manifest> {
  const { source_name } = input
  const id = randomUUID()
  try {
    await db.transaction(async (tx) => {
      await requireRoom(tx, actor)
      await tx.execute(sql`
        WITH made AS (
          INSERT INTO custom_sources (id, organization_id, name, source_name, description, language)
          VALUES (${id}, ${actor.organization_id}, ${input.name}, ${source_name}, ${input.description ?? null}, 'manifest')),
        logged AS (${auditStatement(actor, 'manifest.created', { type: 'custom_source', id, details: { name: input.name, source_name } })})
        ${insertVersion(actor, id, { version: 1, manifest: input.manifest, checked })}`)
    })
  } catch (error) {
    if (isDatabaseError(error, UNIQUE_VIOLATION, 'custom_sources_name_key'))
      throw new AppError(
        'conflict',
        `source_name: a custom source or manifest '${source_name}' already exists; choose another name`,
      )
    throw error
  }
  return readManifest(db, actor, id)
}

interface ManifestChange {
  id: string
  name?: string
  manifest?: string
  description?: string | null
}

/** A new manifest becomes a new version; an unchanged one does not. */
export async function updateManifest(
  services: CellServices,
  actor: Actor,
  change: ManifestChange,
  signal: AbortSignal,
): Promise<Manifest> {
  await readManifest(services.db, actor, change.id)
  const { manifest } = change
  const checked = manifest === undefined ? null : await requireValid(services, actor, manifest, signal)
  return storeManifestChange(services.db, actor, change, checked)
}

/** `checked` belongs to the manifest; null if there is none. */
export async function storeManifestChange(
  db: Transactions,
  actor: Actor,
  { id, ...input }: ManifestChange,
  checked: ManifestValidation | null,
): Promise<Manifest> {
  const { manifest } = input
  await db.transaction(async (tx) => {
    const locked = await tx.first(sql`
      SELECT 1 FROM custom_sources WHERE organization_id = ${actor.organization_id} AND id = ${id} AND language = 'manifest' FOR UPDATE`)
    if (!locked) throw notFound('Manifest')
    const row = await readManifest(tx, actor, id)
    const isNew = manifest !== undefined && manifest !== row.manifest
    const version = isNew ? row.version + 1 : row.version
    if (isNew) await tx.execute(insertVersion(actor, id, { version, manifest, checked: checked! }))
    await tx.execute(sql`
      UPDATE custom_sources SET name = ${input.name ?? row.name}, version = ${version}, updated_at = now(),
             description = ${input.description === undefined ? row.description : input.description} WHERE id = ${id}`)
    const details = {
      name: input.name ?? row.name,
      version,
      fields: fieldsOf(input, ['name', 'manifest', 'description']),
    }
    await audit(tx, actor, 'manifest.updated', { type: 'custom_source', id, details })
  })
  return readManifest(db, actor, id)
}

/** Pipelines that use it stay; their next run fails with a message that it was deleted. */
export async function deleteManifest(
  db: Transactions,
  actor: Actor,
  id: string,
  { if_unused = false }: { if_unused?: boolean } = {},
): Promise<void> {
  await db.transaction(async (tx) => {
    const row = await tx.first<{ name: string; source_name: string }>(sql`
      SELECT name, source_name FROM custom_sources
       WHERE organization_id = ${actor.organization_id} AND id = ${id} AND language = 'manifest' FOR UPDATE`)
    if (!row) throw notFound('Manifest')
    if (if_unused) await requireUnused(tx, actor, { custom: row.source_name })
    await tx.execute(sql`DELETE FROM custom_sources WHERE organization_id = ${actor.organization_id} AND id = ${id}`)
    await audit(tx, actor, 'manifest.deleted', { type: 'custom_source', id, details: row as { name: string } })
  })
}

export async function listManifestVersions(
  db: Queryable,
  actor: Actor,
  id: string,
  page: Paging,
): Promise<Listed<ManifestVersion & ShownStreams>> {
  await readManifest(db, actor, id)
  const matching = sql`FROM custom_source_versions v LEFT JOIN users u ON u.id = v.created_by WHERE v.custom_source_id = ${id}`
  const listed = sql`SELECT v.version, ${shownStreams}, u.name AS created_by_name, v.created_at ${matching} ORDER BY v.version DESC`
  return readList(db, page, listed, sql`SELECT 1 ${matching}`)
}

export async function readManifestVersion(
  db: Queryable,
  actor: Actor,
  id: string,
  version: number,
): Promise<ManifestVersion & { manifest: string }> {
  const row = await db.first<ManifestVersion & { manifest: string }>(sql`
    SELECT v.version, v.streams, u.name AS created_by_name, v.created_at, v.code AS manifest
      FROM custom_source_versions v JOIN custom_sources c ON c.id = v.custom_source_id LEFT JOIN users u ON u.id = v.created_by
     WHERE c.organization_id = ${actor.organization_id} AND c.id = ${id} AND c.language = 'manifest' AND v.version = ${version}`)
  if (!row) throw notFound('Version of this manifest')
  return row
}

const insertVersion = (
  actor: Actor,
  id: string,
  { version, manifest, checked }: { version: number; manifest: string; checked: ManifestValidation },
) => sql`
  INSERT INTO custom_source_versions (custom_source_id, version, code, streams, config_schema, created_by)
  VALUES (${id}, ${version}, ${manifest}, ${JSON.stringify(checked.extracted_streams ?? [])}::jsonb, ${JSON.stringify(storedSchema(checked))}::jsonb, ${actor.user_id})`

/** The settings at the top that a run would miss are required when a config is saved; the rest is checked by the executor. */
function storedSchema({ settings_schema }: ManifestValidation): StoredSchema {
  const settings = settings_schema ?? {}
  const properties = settings.properties
  const required = Array.isArray(settings.required) ? settings.required : []
  const names = typeof properties === 'object' && properties !== null ? Object.entries(properties) : []
  const config_fields = names.map(([name, property]) => {
    const given = typeof property === 'object' && property !== null ? (property as Record<string, unknown>) : {}
    return { name, type_hint: null, required: required.includes(name) && given.default === undefined }
  })
  return { config_fields, enforced: true, settings }
}

async function requireValid(
  services: CellServices,
  actor: Actor,
  manifest: string,
  signal: AbortSignal,
): Promise<ManifestValidation> {
  const result = await validateManifest(services, actor, manifest, signal)
  if (result.valid) return result
  const errors = result.errors
    .slice(0, 20)
    .map(({ line, column, message }) => `line ${line}, column ${column}: ${message}`)
  throw new AppError('invalid_input', `manifest: cannot run.\n${errors.join('\n')}`)
}
