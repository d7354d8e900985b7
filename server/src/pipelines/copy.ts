/** Copies a pipeline: the same config, schedule and domain, disabled, under a new name. */
import { randomUUID } from 'node:crypto'
import { loadReferences, wantedBy } from '../connections/references.ts'
import { holdReferences } from '../connections/uses.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { lockForTransaction, type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { LONGEST_NAME } from '../tenancy/names.ts'
import { can } from '../tenancy/permissions.ts'
import type { ConfigSummary } from './config.ts'
import type { PipelineConfig } from './config-shape.ts'
import {
  findPipeline,
  insertPipeline,
  openConfig,
  type Pipeline,
  requireReadableRuns,
  requireRoom,
  type Stores,
} from './pipelines.ts'
import { forgetTotals } from './totals.ts'

export async function copyPipeline(
  stores: Stores,
  actor: Actor,
  id: string,
  input: { name?: string | null },
): Promise<Pipeline> {
  const { db, box } = stores
  const made = await db.transaction(async (tx) => {
    const row = await findPipeline(tx, actor, id)
    requirePermission(actor, 'pipelines:write', row.domain_id)
    await requireRoom(tx, stores, actor, 1)
    const config = openConfig(box, row)
    await requireSameRuns({ db: tx, box }, actor, config)
    const summary = await readSummary(tx, id)
    await holdReferences(tx, actor.organization_id, {
      source_id: summary.saved_source_id,
      source_name: summary.source_name,
      destination_id: summary.saved_destination_id,
    })
    const name = input.name ?? (await makeCopyName(tx, actor.organization_id, row.name))
    const copy = {
      id: randomUUID(),
      name,
      config,
      summary,
      schedule: row.schedule,
      timezone: row.timezone,
      domain_id: row.domain_id,
      enabled: false,
      next_run_at: null,
    }
    return insertPipeline({ db: tx, box }, actor, copy, 'pipeline.copied')
  })
  forgetTotals(actor.organization_id)
  return made
}

/**
 * Whoever sees all pipelines may copy one whose run or saved source is gone, and its copy fails like the original. A
 * limited key must be able to read what the copy will read.
 */
async function requireSameRuns(
  { db, box }: { db: Queryable; box: SecretBox },
  actor: Actor,
  config: PipelineConfig,
): Promise<void> {
  if (can(actor, 'pipelines:read')) return
  const references = await loadReferences(db, actor.organization_id, wantedBy(config))
  await requireReadableRuns({ db, box }, actor, config, references).catch((error: Error) => {
    if (!(error instanceof ConnectorError)) throw error
  })
}

const readSummary = async (tx: Queryable, id: string): Promise<ConfigSummary> =>
  (await tx.first<ConfigSummary>(sql`
    SELECT source_name, stream, destination_name, saved_source_id, saved_destination_id FROM pipelines WHERE id = ${id}`))!

/** "X (copy)", then "X (copy 2)": the first free name. Concurrent copies of X are serialized. */
async function makeCopyName(tx: Queryable, organizationId: string, name: string): Promise<string> {
  await lockForTransaction(tx, `copy ${organizationId} ${name}`)
  const base = name.slice(0, LONGEST_NAME - ' (copy 99999)'.length)
  const rows = await tx.query<{ name: string }>(sql`
    SELECT name FROM pipelines WHERE organization_id = ${organizationId} AND starts_with(name, ${`${base} (copy`})`)
  const taken = new Set(rows.map((row) => row.name))
  let candidate = `${base} (copy)`
  for (let number = 2; taken.has(candidate); number++) candidate = `${base} (copy ${number})`
  return candidate
}
