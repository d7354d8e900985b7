/**
 * What a pipeline keeps between its runs: the cursor from which an incremental run continues, and the columns of its
 * destination. A manual change takes a sequence number among all runs, so that it wins over what any earlier run left
 * in its destination. Removing the cursor is such a change too: it stores null.
 */
import { refuse } from '../connections/faults.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { readKeptColumns, type StoredColumn } from '../connectors/kept-columns.ts'
import { findSource } from '../connectors/registry.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { type Queryable, sql } from '../database/database.ts'
import { findChanges, readFingerprint } from '../engine/fingerprint.ts'
import type { Json } from '../json/json.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { presentFingerprint } from './notice.ts'
import { findPipeline, lockPipeline, type Stores } from './pipelines.ts'

export interface PipelineState {
  cursor: Json
  updated_at: string | null
}

export interface PipelineSchema {
  /** `native_type` is the type's name in the destination system. */
  columns: { name: string; type: string; native_type: string | null }[]
  changes: Json[]
  updated_at: string | null
}

/**
 * The cursor that the next run will use. A saved one that belongs to another source, stream, cursor field or destination
 * is not used, so it is shown as null.
 */
export async function readState({ db, box }: Stores, actor: Actor, id: string): Promise<PipelineState> {
  const pipeline = await findPipeline(db, actor, id)
  const row = await db.first<PipelineState & { fingerprint: Json }>(
    sql`SELECT cursor, updated_at, fingerprint FROM pipeline_state WHERE pipeline_id = ${id}`,
  )
  if (!row) return { cursor: null, updated_at: null }
  const { fingerprint, ...state } = row
  const now = await presentFingerprint(db, box, pipeline)
  const belongs = now === null || findChanges(readFingerprint(fingerprint), now).length === 0
  return belongs ? state : { ...state, cursor: null }
}

/** What a person sets is meant for the config as it is now, so it must be a state that its source can read. */
export async function writeState({ db, box }: Stores, actor: Actor, id: string, cursor: Json): Promise<PipelineState> {
  return db.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, actor, id)
    requirePermission(actor, 'pipelines:write', pipeline.domain_id)
    await requireUsable(tx, id, cursor)
    const fingerprint = JSON.stringify(await presentFingerprint(tx, box, pipeline))
    const row = await tx.first<PipelineState>(sql`
      INSERT INTO pipeline_state (pipeline_id, seq, cursor, fingerprint)
      VALUES (${id}, nextval('run_seq'), ${JSON.stringify(cursor)}::jsonb, nullif(${fingerprint}::jsonb, 'null'))
      ON CONFLICT (pipeline_id) DO UPDATE SET seq = excluded.seq, cursor = excluded.cursor, fingerprint = excluded.fingerprint, updated_at = now()
      RETURNING cursor, updated_at`)
    const action = cursor === null ? 'pipeline_state.removed' : 'pipeline_state.written'
    await audit(tx, actor, action, { type: 'pipeline_state', id })
    return row!
  })
}

async function requireUsable(db: Queryable, id: string, cursor: Json): Promise<void> {
  if (cursor === null) return
  const row = await db.first<{ source_name: string }>(sql`SELECT source_name FROM pipelines WHERE id = ${id}`)
  const source = findSource(row!.source_name)
  if (!source) {
    if (isObject(cursor)) return
    throw refuse(['cursor: must be an object, because it becomes the self.state of the custom source'])
  }
  if (!source.capabilities.incremental)
    throw refuse([`cursor: ${source.name} reads everything each time, so it has no state`])
  try {
    source.checkState?.(cursor)
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    throw refuse([`cursor: ${error.message}`])
  }
}

export async function readSchema(db: Queryable, actor: Actor, id: string): Promise<PipelineSchema> {
  await findPipeline(db, actor, id)
  const row = await db.first<Omit<PipelineSchema, 'columns'> & { columns: StoredColumn[] }>(
    sql`SELECT columns, changes, updated_at FROM pipeline_schemas WHERE pipeline_id = ${id}`,
  )
  if (!row) return { columns: [], changes: [], updated_at: null }
  const columns = readKeptColumns(row.columns).map(({ name, type, native }) => ({
    name,
    type,
    native_type: native?.type ?? null,
  }))
  return { ...row, columns }
}
