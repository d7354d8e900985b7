/**
 * The configuration that a run used, as it is kept for people: everything that was resolved, with secrets masked. A custom
 * source is named by its version, never copied. Runs of a pipeline that did not change share one row, found by its hash.
 */
import { createHash } from 'node:crypto'
import { maskDestinationConfig, maskSourceConfig } from '../connections/masks.ts'
import { type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { ofVisiblePipeline } from '../tenancy/visibility.ts'
import type { PinnedConfig } from './pinned-config.ts'

interface UsedConfig {
  hash: Buffer
  /** JSON text. */
  config: string
}

/** What the API shows. */
export interface RunConfig {
  /** Null if it could not be resolved. */
  config: Record<string, unknown> | null
  /** Why it could not be resolved. */
  problem: string | null
}

/** These rows are for people and stay as long as their runs, so they are kept small, whatever a tenant saves. */
const MAX_TEXT = 1000
const MAX_BYTES = 16 * 1024

export function usedConfigOf(pinned: PinnedConfig): UsedConfig {
  const whole = JSON.stringify('config' in pinned ? { config: maskConfig(pinned.config) } : pinned, cutText)
  const config =
    whole.length <= MAX_BYTES ? whole : JSON.stringify({ problem: 'The configuration is too large to be kept.' })
  return { hash: createHash('sha256').update(config).digest(), config }
}

const cutText = (_key: string, value: unknown): unknown =>
  typeof value === 'string' && value.length > MAX_TEXT
    ? `${value.slice(0, MAX_TEXT)}… (${value.length - MAX_TEXT} more characters)`
    : value

function maskConfig({ source, destination, ...rest }: Extract<PinnedConfig, { config: unknown }>['config']): object {
  const { custom, ...plain } = source
  return {
    source: {
      ...plain,
      ...maskSourceConfig(source.name, source),
      ...(custom && { custom_source: { id: custom.id, version: custom.version } }),
    },
    destination: { ...destination, config: maskDestinationConfig(destination.name, destination.config) },
    ...rest,
  }
}

/** An INSERT of those that are not there yet. */
export const keepUsedConfigs = (rows: readonly (UsedConfig & { pipeline_id: string })[]): Statement => sql`
  INSERT INTO run_configs (pipeline_id, hash, config)
  SELECT * FROM unnest(${rows.map((row) => row.pipeline_id)}::uuid[], ${rows.map((row) => row.hash)}::bytea[], ${rows.map((row) => row.config)}::text[])
  ON CONFLICT DO NOTHING`

const PIPELINE_ID = raw('r.pipeline_id')

export async function readRunConfig(db: Queryable, actor: Actor, runId: string): Promise<RunConfig> {
  const row = await db.first<{ config: string | null }>(sql`
    SELECT c.config FROM runs r LEFT JOIN run_configs c ON c.pipeline_id = r.pipeline_id AND c.hash = r.used_config_hash
     WHERE r.id = ${runId} AND r.organization_id = ${actor.organization_id}${ofVisiblePipeline(actor, PIPELINE_ID)}`)
  if (!row) throw notFound('Run')
  // A run of an earlier release.
  if (row.config === null) throw notFound('Configuration of this run')
  return { config: null, problem: null, ...(JSON.parse(row.config) as Partial<RunConfig>) }
}
