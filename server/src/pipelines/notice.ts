/**
 * What a changed config means for the pipeline's next run, said to the person who changed it. The run finds out by itself
 * (engine/resume-point.ts): a saved connector can change without the pipeline being edited.
 */
import { ConnectorError } from '../connectors/contract.ts'
import { findDestination } from '../connectors/registry.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import {
  describeChanges,
  describeOldRows,
  type Fingerprint,
  findChanges,
  hasOtherSettings,
  OTHER_SETTINGS,
  readFingerprint,
} from '../engine/fingerprint.ts'
import type { Json } from '../json/json.ts'
import { makeFingerprint } from './fingerprint.ts'
import { openPipelineConfig, type ResolvedConfig, resolveConfig } from './resolve.ts'

interface SealedPipeline {
  id: string
  organization_id: string
  config_box: Buffer
}

/** The fingerprint of the stored config, or null if it cannot be resolved: then its next run fails anyway. */
export async function presentFingerprint(
  db: Queryable,
  box: SecretBox,
  pipeline: SealedPipeline,
): Promise<Fingerprint | null> {
  try {
    const config = openPipelineConfig(box, pipeline)
    const resolved = await resolveConfig(db, box, pipeline.organization_id, config)
    return makeFingerprint(box, pipeline.organization_id, resolved)
  } catch (error) {
    if (error instanceof ConnectorError) return null
    throw error
  }
}

interface Kept {
  state_fingerprint: Json
  has_cursor: boolean
  /** Runs after the one that saved the state have loaded something, or may still do so. */
  has_later_runs: boolean
}

/**
 * Called while the row still holds the old config. State from before there were fingerprints belongs to that config, so it
 * is given its fingerprint now; the next run would take it for its own.
 */
export async function noticeChange(
  tx: Queryable,
  box: SecretBox,
  pipeline: SealedPipeline,
  next: ResolvedConfig,
): Promise<string | null> {
  const kept = await readKept(tx, pipeline.id)
  if (!kept.has_cursor && !kept.has_later_runs) return null
  const before = await presentFingerprint(tx, box, pipeline)
  if (before) await adopt(tx, pipeline.id, before)
  return describe(kept, before, makeFingerprint(box, pipeline.organization_id, next), next)
}

/**
 * The same for a pipeline that stays as it is, or was changed already, while something that it uses changes. `before` is
 * its fingerprint from before all of that.
 */
export async function foreseeChange(
  tx: Queryable,
  id: string,
  before: Fingerprint | null,
  { now, next }: { now: Fingerprint; next: ResolvedConfig },
): Promise<string | null> {
  const kept = await readKept(tx, id)
  return kept.has_cursor || kept.has_later_runs ? describe(kept, before, now, next) : null
}

function describe(kept: Kept, before: Fingerprint | null, now: Fingerprint, next: ResolvedConfig): string | null {
  const state = readFingerprint(kept.state_fingerprint) ?? before
  const ofState = kept.has_cursor ? findChanges(state, now) : []
  const changes = ofState.length > 0 || !kept.has_later_runs ? ofState : findChanges(before, now)
  if (next.sync.mode !== 'incremental') return null
  if (changes.length === 0) return kept.has_cursor && hasOtherSettings(state, now) ? OTHER_SETTINGS : null
  const rows = describeOldRows(changes, next.sync.write, findDestination(next.destination.name)!)
  const what = `${describeChanges(changes)}, so the next run starts from the beginning.`
  return rows ? `${what} ${rows.sentence}` : what
}

const readKept = async (tx: Queryable, id: string): Promise<Kept> =>
  (await tx.first<Kept>(sql`
    SELECT s.fingerprint AS state_fingerprint, coalesce(s.cursor, 'null') <> 'null' AS has_cursor,
           EXISTS (SELECT 1 FROM runs r WHERE r.pipeline_id = p.id AND r.seq > coalesce(s.seq, -1)
                      AND (r.checkpoint > 0 OR r.status IN ('pending', 'running'))) AS has_later_runs
      FROM (SELECT ${id}::uuid AS id) p LEFT JOIN pipeline_state s ON s.pipeline_id = p.id`))!

async function adopt(tx: Queryable, id: string, fingerprint: Fingerprint): Promise<void> {
  const text = JSON.stringify(fingerprint)
  // Even without a row, the destination may have the cursor of a run that failed halfway.
  await tx.execute(sql`
    INSERT INTO pipeline_state AS s (pipeline_id, seq, cursor, fingerprint) VALUES (${id}, 0, 'null', ${text})
    ON CONFLICT (pipeline_id) DO UPDATE SET fingerprint = excluded.fingerprint WHERE s.fingerprint IS NULL`)
  await tx.execute(
    sql`UPDATE pipeline_schemas SET fingerprint = ${text} WHERE pipeline_id = ${id} AND fingerprint IS NULL`,
  )
}
