/**
 * Custom sources: Python code under a source_name, kept in versions. Code that does not pass validation is never
 * stored. A new version does not affect runs in progress, because runs keep the code they started with.
 */
import { randomUUID } from 'node:crypto'
import type { ValidationResult } from '../cell/validate.ts'
import { findSource } from '../connectors/registry.ts'
import {
  type Database,
  isDatabaseError,
  lockForTransaction,
  type Queryable,
  sql,
  type Transactions,
  UNIQUE_VIOLATION,
} from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import type { CallPool } from '../executors/call-pool.ts'
import { trimError } from '../executors/reports.ts'
import type { Actor } from '../tenancy/actor.ts'
import { audit, auditStatement, fieldsOf } from '../tenancy/audit.ts'
import type { StoredSchema } from './references.ts'
import { type ShownStreams, shownStreams } from './shown-streams.ts'
import { settingsSchemaOf } from './type-hints.ts'
import { requireUnused, type SourceUse, sourceUse } from './uses.ts'

interface CustomSource {
  id: string
  name: string
  source_name: string
  streams: string[]
  description: string | null
  version: number
  created_at: string
}

export type CustomSourceItem = CustomSource & ShownStreams & SourceUse

export interface CustomSourceWithCode extends CustomSource {
  code: string
  updated_at: string | null
}

export interface CustomSourceVersion {
  version: number
  streams: string[]
  created_by_name: string | null
  created_at: string
}

export interface CellServices {
  db: Database
  calls: CallPool
}

const MAX_CODE_BYTES = 512 * 1024
const MAX_ERRORS = 20
/** Of an organization. */
export const MAX_SOURCES = 1000

const fields = sql`c.id, c.name, c.source_name, c.description, c.version, c.created_at`
const columns = sql`${fields}, v.streams`
const current = sql`custom_sources c JOIN custom_source_versions v ON v.custom_source_id = c.id AND v.version = c.version AND c.language = 'python'`

export async function validateSource(
  { calls }: CellServices,
  actor: Actor,
  { code, source_name = null }: { code: string; source_name?: string | null },
  signal: AbortSignal,
): Promise<ValidationWithSettings> {
  checkCodeSize(code)
  const result = await calls.run(actor.organization_id, 'validate', { code, source_name }, { signal })
  const answer = result.ok ? result.answer : unreadable(trimError(result.message))
  return { ...answer, settings_schema: answer.valid ? settingsSchemaOf(answer.extracted_schema.config_fields) : null }
}

interface ValidationWithSettings extends ValidationResult {
  /** Of its config class. */
  settings_schema: Record<string, unknown> | null
}

const unreadable = (reason: string): ValidationResult => ({
  valid: false,
  errors: [{ line: 1, column: 0, message: `the code cannot be read: ${reason}`, severity: 'error' }],
  warnings: [],
  extracted_source_name: null,
  extracted_streams: null,
  extracted_schema: { config_class_name: null, config_fields: [], auth_class_name: null, auth_type: null },
  settings_enforced: false,
})

export function listCustomSources(db: Queryable, actor: Actor, page: Paging): Promise<Listed<CustomSourceItem>> {
  const matching = sql`FROM ${current} WHERE c.organization_id = ${actor.organization_id}`
  return readList(
    db,
    page,
    sql`SELECT ${fields}, ${shownStreams}, ${sourceUse} ${matching} ORDER BY c.created_at DESC, c.id`,
    sql`SELECT 1 ${matching}`,
  )
}

export async function readCustomSource(db: Queryable, actor: Actor, id: string): Promise<CustomSourceWithCode> {
  const row = await db.first<CustomSourceWithCode>(sql`
    SELECT ${columns}, v.code, c.updated_at FROM ${current} WHERE c.organization_id = ${actor.organization_id} AND c.id = ${id}`)
  if (!row) throw notFound('Custom source')
  return row
}

interface NewSource {
  name: string
  source_name: string
  code: string
  description?: string | null
}

export async function createCustomSource(
  services: CellServices,
  actor: Actor,
  input: NewSource,
  signal: AbortSignal,
): Promise<CustomSourceWithCode> {
  requireFreeName(input.source_name)
  // Before the transaction: a connection should not wait for a tenant's code.
  const checked = await requireValid(services, actor, input, signal)
  return storeNewSource(services.db, actor, input, checked)
}

export function requireFreeName(name: string): void {
  if (findSource(name))
    throw new AppError('conflict', `source_name: '${name}' is a built-in source; choose another name`)
}

export async function storeNewSource(
  db: Transactions,
  actor: Actor,
  input: NewSource,
  checked: ValidationResult,
): Promise<CustomSourceWithCode> {
  const { source_name } = input
  const id = randomUUID()
  try {
    await db.transaction(async (tx) => {
      await requireRoom(tx, actor)
      await tx.execute(sql`
        WITH made AS (
          INSERT INTO custom_sources (id, organization_id, name, source_name, description)
          VALUES (${id}, ${actor.organization_id}, ${input.name}, ${source_name}, ${input.description ?? null})),
        logged AS (${auditStatement(actor, 'custom_source.created', { type: 'custom_source', id, details: { name: input.name, source_name } })})
        ${insertVersion(actor, id, { version: 1, code: input.code, checked })}`)
    })
  } catch (error) {
    if (isDatabaseError(error, UNIQUE_VIOLATION, 'custom_sources_name_key'))
      throw new AppError(
        'conflict',
        `source_name: a custom source or manifest '${source_name}' already exists; choose another name`,
      )
    throw error
  }
  return readCustomSource(db, actor, id)
}

/**
 * Every custom source is in the list of sources, with its streams, so their number is limited. Concurrent creations are
 * serialized; otherwise all would find the last slot free.
 */
export async function requireRoom(tx: Queryable, actor: Actor): Promise<void> {
  await lockForTransaction(tx, `custom_sources ${actor.organization_id}`)
  const row = await tx.first<{ count: number }>(
    sql`SELECT count(*) AS count FROM custom_sources WHERE organization_id = ${actor.organization_id}`,
  )
  if (row!.count >= MAX_SOURCES)
    throw new AppError(
      'conflict',
      `The organization already has ${MAX_SOURCES} custom sources; delete one that is unused`,
    )
}

interface SourceChange {
  id: string
  name?: string
  code?: string
  description?: string | null
}

/** New code becomes a new version; unchanged code does not. */
export async function updateCustomSource(
  services: CellServices,
  actor: Actor,
  change: SourceChange,
  signal: AbortSignal,
): Promise<CustomSourceWithCode> {
  const before = await readCustomSource(services.db, actor, change.id)
  const { code } = change
  // Before the transaction: a connection should not wait for a tenant's code.
  const named = { code: code ?? '', source_name: before.source_name }
  const checked = code === undefined ? null : await requireValid(services, actor, named, signal)
  return storeSourceChange(services.db, actor, change, checked)
}

/** `checked` belongs to the code; null if there is none. */
export async function storeSourceChange(
  db: Transactions,
  actor: Actor,
  { id, ...input }: SourceChange,
  checked: ValidationResult | null,
): Promise<CustomSourceWithCode> {
  const { code } = input
  await db.transaction(async (tx) => {
    const locked = await tx.first<{ version: number }>(sql`
      SELECT version FROM custom_sources WHERE organization_id = ${actor.organization_id} AND id = ${id} FOR UPDATE`)
    if (!locked) throw notFound('Custom source')
    const row = await readCustomSource(tx, actor, id)
    const isNew = code !== undefined && code !== row.code
    const version = isNew ? row.version + 1 : row.version
    if (isNew) await tx.execute(insertVersion(actor, id, { version, code, checked: checked! }))
    await tx.execute(sql`
      UPDATE custom_sources SET name = ${input.name ?? row.name}, version = ${version}, updated_at = now(),
             description = ${input.description === undefined ? row.description : input.description} WHERE id = ${id}`)
    const details = { name: input.name ?? row.name, version, fields: fieldsOf(input, ['name', 'code', 'description']) }
    await audit(tx, actor, 'custom_source.updated', { type: 'custom_source', id, details })
  })
  return readCustomSource(db, actor, id)
}

/** Pipelines that use it stay; their next run fails with a message that it was deleted. */
export async function deleteCustomSource(
  db: Transactions,
  actor: Actor,
  id: string,
  { if_unused = false }: { if_unused?: boolean } = {},
): Promise<void> {
  await db.transaction(async (tx) => {
    if (if_unused) {
      const locked = await tx.first<{ source_name: string }>(sql`
        SELECT source_name FROM custom_sources WHERE organization_id = ${actor.organization_id} AND id = ${id} AND language = 'python' FOR UPDATE`)
      if (!locked) throw notFound('Custom source')
      await requireUnused(tx, actor, { custom: locked.source_name })
    }
    const row = await tx.first<{ name: string; source_name: string }>(sql`
      DELETE FROM custom_sources WHERE organization_id = ${actor.organization_id} AND id = ${id} AND language = 'python' RETURNING name, source_name`)
    if (!row) throw notFound('Custom source')
    await audit(tx, actor, 'custom_source.deleted', { type: 'custom_source', id, details: row as { name: string } })
  })
}

export async function listVersions(
  db: Queryable,
  actor: Actor,
  id: string,
  page: Paging,
): Promise<Listed<CustomSourceVersion & ShownStreams>> {
  await readCustomSource(db, actor, id)
  const matching = sql`FROM custom_source_versions v LEFT JOIN users u ON u.id = v.created_by WHERE v.custom_source_id = ${id}`
  const listed = sql`SELECT v.version, ${shownStreams}, u.name AS created_by_name, v.created_at ${matching} ORDER BY v.version DESC`
  return readList(db, page, listed, sql`SELECT 1 ${matching}`)
}

export async function readVersion(
  db: Queryable,
  actor: Actor,
  id: string,
  version: number,
): Promise<CustomSourceVersion & { code: string }> {
  const row = await db.first<CustomSourceVersion & { code: string }>(sql`
    SELECT v.version, v.streams, u.name AS created_by_name, v.created_at, v.code
      FROM custom_source_versions v JOIN custom_sources c ON c.id = v.custom_source_id LEFT JOIN users u ON u.id = v.created_by
     WHERE c.organization_id = ${actor.organization_id} AND c.id = ${id} AND c.language = 'python' AND v.version = ${version}`)
  if (!row) throw notFound('Version of this custom source')
  return row
}

const insertVersion = (
  actor: Actor,
  id: string,
  { version, code, checked }: { version: number; code: string; checked: ValidationResult },
) => {
  const schema: StoredSchema = { ...checked.extracted_schema, enforced: checked.settings_enforced }
  return sql`
    INSERT INTO custom_source_versions (custom_source_id, version, code, streams, config_schema, created_by)
    VALUES (${id}, ${version}, ${code}, ${JSON.stringify(checked.extracted_streams ?? [])}::jsonb, ${JSON.stringify(schema)}::jsonb, ${actor.user_id})`
}

async function requireValid(
  services: CellServices,
  actor: Actor,
  input: { code: string; source_name: string },
  signal: AbortSignal,
): Promise<ValidationResult> {
  const result = await validateSource(services, actor, input, signal)
  if (result.valid) return result
  const errors = result.errors.map(({ line, column, message }) => `line ${line}, column ${column}: ${message}`)
  const rest = errors.length > MAX_ERRORS ? [`and ${errors.length - MAX_ERRORS} more`] : []
  throw new AppError('invalid_input', `code: is not valid.\n${[...errors.slice(0, MAX_ERRORS), ...rest].join('\n')}`)
}

export function checkCodeSize(code: string): void {
  const bytes = Buffer.byteLength(code)
  if (bytes > MAX_CODE_BYTES)
    throw new AppError(
      'invalid_input',
      `code: is too large (${Math.ceil(bytes / 1024)} KB); at most 512 KB are allowed`,
    )
}
