/**
 * The configuration that a run used, as it is kept for people: everything that was resolved, with secrets masked. A custom
 * source is named by its version, never copied. It is encrypted all the same: hosts, users and queries are nobody else's
 * business. Its id is a keyed hash of its content, so that runs of a pipeline that did not change share one row.
 */
import { maskAddresses, maskDestinationConfig, maskSourceConfig } from '../connections/masks.ts'
import { type Database, type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { type SecretBox, SecretLost } from '../database/secret-box.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { ofVisiblePipeline } from '../tenancy/visibility.ts'
import type { PinnedConfig, UsableConfig } from './pinned-config.ts'

interface KeptSide {
  /** Set if it came from a saved connector. */
  saved_connector_id?: string
  /** What the pipeline itself says, if there is a saved connector. */
  overrides?: object
  [field: string]: unknown
}

type KeptConfig = { config: { source: KeptSide; destination: KeptSide; [part: string]: unknown } } | { problem: string }

export interface UsedConfig {
  id: string
  organization_id: string
  pipeline_id: string
  config_box: Buffer
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

const placeOf = (row: Pick<UsedConfig, 'id' | 'organization_id'>) => ({
  organization_id: row.organization_id,
  column: 'used_configs.config_box',
  row_id: row.id,
})

export function usedConfigOf(
  box: SecretBox,
  { id: pipeline_id, organization_id }: { id: string; organization_id: string },
  pinned: PinnedConfig,
): UsedConfig {
  const kept: KeptConfig = 'config' in pinned ? { config: maskConfig(pinned.config) } : pinned
  const cut = JSON.stringify(kept, cutText)
  const text = cut.length <= MAX_BYTES ? cut : JSON.stringify({ problem: 'The configuration is too large to be kept.' })
  const id = toUuid(box.hash('used config', `${pipeline_id}\n${text}`))
  return { id, organization_id, pipeline_id, config_box: box.seal(placeOf({ id, organization_id }), JSON.parse(text)) }
}

const cutText = (_key: string, value: unknown): unknown =>
  typeof value === 'string' && value.length > MAX_TEXT
    ? `${value.slice(0, MAX_TEXT)}… (${value.length - MAX_TEXT} more characters)`
    : value

/** A UUID of version 8, which may hold anything. */
function toUuid(hash: Buffer): string {
  const bytes = Buffer.from(hash.subarray(0, 16))
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

function maskConfig({ source, destination, ...rest }: UsableConfig): Extract<KeptConfig, { config: object }>['config'] {
  const { custom, ...plain } = source
  return {
    source: maskAddresses({
      ...plain,
      ...maskSourceConfig(source.name, source),
      ...(custom && { custom_source: { id: custom.id, version: custom.version } }),
    }) as KeptSide,
    destination: maskAddresses({
      ...destination,
      config: maskDestinationConfig(destination.name, destination.config),
    }) as KeptSide,
    ...rest,
  }
}

/** Inserts those that are not there yet; for a WITH clause. The pipelines are locked. */
export const keepUsedConfigs = (rows: readonly UsedConfig[]): Statement => sql`
  INSERT INTO used_configs (id, organization_id, pipeline_id, config_box)
  SELECT * FROM unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.organization_id)}::uuid[],
                       ${rows.map((row) => row.pipeline_id)}::uuid[], ${rows.map((row) => row.config_box)}::bytea[])
  ON CONFLICT DO NOTHING`

const PIPELINE_ID = raw('r.pipeline_id')

export async function readRunConfig(
  { db, box }: { db: Queryable; box: SecretBox },
  actor: Actor,
  runId: string,
): Promise<RunConfig> {
  const { organization_id } = actor
  const row = await db.first<{ id: string | null; config_box: Buffer }>(sql`
    SELECT c.id, c.config_box FROM runs r LEFT JOIN used_configs c ON c.id = r.used_config_id AND c.organization_id = r.organization_id
     WHERE r.id = ${runId} AND r.organization_id = ${organization_id}${ofVisiblePipeline(actor, PIPELINE_ID)}`)
  if (!row) throw notFound('Run')
  // A run of an earlier release, or of a pipeline with too many different ones.
  if (row.id === null) throw notFound('Configuration of this run')
  const kept = openKept(box, { id: row.id, organization_id }, row.config_box)
  return show(kept, can(actor, 'connectors:read'))
}

function openKept(box: SecretBox, row: Pick<UsedConfig, 'id' | 'organization_id'>, sealed: Buffer): KeptConfig {
  try {
    return box.open(placeOf(row), sealed)
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    throw new AppError('conflict', `The configuration of this run cannot be decrypted. ${error.message}`)
  }
}

/** Settings of saved connectors are only for those who may read saved connectors. */
function show(kept: KeptConfig, withSaved: boolean): RunConfig {
  if (!('config' in kept)) return { config: null, problem: kept.problem }
  const { source, destination, ...rest } = kept.config
  const showSide = withSaved ? showWhole : showOwn
  return { config: { source: showSide(source), destination: showSide(destination), ...rest }, problem: null }
}

function showWhole({ overrides: _, saved_connector_id: id, ...side }: KeptSide): object {
  return id === undefined ? side : { ...side, saved_connector_id: id }
}

function showOwn(side: KeptSide): object {
  const { saved_connector_id, stream, overrides = {} } = side
  if (saved_connector_id === undefined) return side
  return { saved_connector_id, ...(stream !== undefined && { stream }), config: overrides }
}

/** A pipeline can be changed before every run. If it has more different configurations, only recent runs keep theirs. */
export const KEPT_PER_PIPELINE = 100

export async function forgetUsedConfigs(db: Database): Promise<void> {
  const many = await db.query<{ pipeline_id: string }>(
    sql`SELECT pipeline_id FROM used_configs GROUP BY pipeline_id HAVING count(*) > ${KEPT_PER_PIPELINE}`,
  )
  for (const { pipeline_id } of many) await db.transaction((tx) => forgetOld(tx, pipeline_id))
}

/** Locks the pipeline as a trigger does, so that no run comes to name what is deleted. */
async function forgetOld(tx: Queryable, pipelineId: string): Promise<void> {
  const locked = await tx.first(sql`SELECT 1 FROM pipelines WHERE id = ${pipelineId} FOR NO KEY UPDATE SKIP LOCKED`)
  if (!locked) return
  await tx.execute(sql`
    DELETE FROM used_configs WHERE pipeline_id = ${pipelineId} AND id <> ALL (ARRAY(
      SELECT used_config_id FROM runs WHERE pipeline_id = ${pipelineId} AND used_config_id IS NOT NULL ORDER BY seq DESC LIMIT ${KEPT_PER_PIPELINE}))`)
}
