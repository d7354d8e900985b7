/**
 * What a pipeline keeps between its runs: the cursor from which an incremental run continues, and the columns of its
 * destination. A manual change takes a sequence number among all runs, so that it wins over what any earlier run left
 * in its destination. Removing the cursor is such a change too: it stores null.
 */
import { readKeptColumns, type StoredColumn } from '../connectors/kept-columns.ts'
import { type Database, type Queryable, sql } from '../database/database.ts'
import type { Json } from '../json/json.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { findPipeline, lockPipeline } from './pipelines.ts'

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

export async function readState(db: Queryable, actor: Actor, id: string): Promise<PipelineState> {
  await findPipeline(db, actor, id)
  const row = await db.first<PipelineState>(
    sql`SELECT cursor, updated_at FROM pipeline_state WHERE pipeline_id = ${id}`,
  )
  return row ?? { cursor: null, updated_at: null }
}

export async function writeState(db: Database, actor: Actor, id: string, cursor: Json): Promise<PipelineState> {
  return db.transaction(async (tx) => {
    requirePermission(actor, 'pipelines:write', (await lockPipeline(tx, actor, id)).domain_id)
    const row = await tx.first<PipelineState>(sql`
      INSERT INTO pipeline_state (pipeline_id, seq, cursor) VALUES (${id}, nextval('run_seq'), ${JSON.stringify(cursor)}::jsonb)
      ON CONFLICT (pipeline_id) DO UPDATE SET seq = excluded.seq, cursor = excluded.cursor, updated_at = now()
      RETURNING cursor, updated_at`)
    const action = cursor === null ? 'pipeline_state.removed' : 'pipeline_state.written'
    await audit(tx, actor, action, { type: 'pipeline_state', id })
    return row!
  })
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
