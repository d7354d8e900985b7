/**
 * The configuration that a run used, as it is kept for people: everything that was resolved, with secrets masked. A custom
 * source is named by its version, never copied. It is encrypted all the same: hosts, users and queries are nobody else's
 * business. Its id is a keyed hash of its content, so that runs of one organization that use the same share one row.
 */
import { maskAddresses, maskDestinationConfig, maskSourceConfig } from '../connections/masks.ts'
import { type Queryable, raw, type Statement, sql } from '../database/database.ts'
import { type SecretBox, SecretLost } from '../database/secret-box.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { ofVisiblePipeline } from '../tenancy/visibility.ts'
import type { PinnedConfig, UsableConfig } from './pinned-config.ts'

interface KeptSide {
  /** Set if it came from a saved connector. Null: kept by an earlier release, which did not say. */
  saved_connector_id?: string | null
  /** What the pipeline itself says, if there is a saved connector. */
  overrides?: object
  [field: string]: unknown
}

export type KeptConfig =
  | { config: { source: KeptSide; destination: KeptSide; [part: string]: unknown } }
  | { problem: string }

export interface UsedConfig {
  id: string
  organization_id: string
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

export const usedConfigOf = (box: SecretBox, organizationId: string, pinned: PinnedConfig): UsedConfig =>
  sealKept(box, organizationId, 'config' in pinned ? { config: maskConfig(pinned.config) } : pinned)

export function sealKept(box: SecretBox, organization_id: string, kept: KeptConfig): UsedConfig {
  const cut = JSON.stringify(kept, cutText)
  const text = cut.length <= MAX_BYTES ? cut : JSON.stringify({ problem: 'The configuration is too large to be kept.' })
  const id = toUuid(box.hash('used config', `${organization_id}\n${text}`))
  return { id, organization_id, config_box: box.seal(placeOf({ id, organization_id }), JSON.parse(text)) }
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

/**
 * For a WITH clause: inserts those that are not there yet. The foreign key of the second table keeps the cleanup from
 * deleting one that is being named.
 */
export const keepUsedConfigs = (rows: readonly (UsedConfig & { pipeline_id: string })[]): Statement => sql`
  kept_configs AS (
    INSERT INTO used_configs (id, organization_id, config_box)
    SELECT * FROM unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.organization_id)}::uuid[], ${rows.map((row) => row.config_box)}::bytea[])
    ON CONFLICT DO NOTHING),
  kept_uses AS (
    INSERT INTO pipeline_used_configs (organization_id, pipeline_id, used_config_id)
    SELECT * FROM unnest(${rows.map((row) => row.organization_id)}::uuid[], ${rows.map((row) => row.pipeline_id)}::uuid[], ${rows.map((row) => row.id)}::uuid[])
    ON CONFLICT DO NOTHING)`

const PIPELINE_ID = raw('r.pipeline_id')

export async function readRunConfig(
  { db, box }: { db: Queryable; box: SecretBox },
  actor: Actor,
  runId: string,
): Promise<RunConfig> {
  const row = await db.first<{ id: string | null; config_box: Buffer; plain: string | null }>(sql`
    SELECT c.id, c.config_box, p.config AS plain FROM runs r
      LEFT JOIN used_configs c ON c.id = r.used_config_id AND c.organization_id = r.organization_id
      LEFT JOIN run_configs p ON p.pipeline_id = r.pipeline_id AND p.hash = r.used_config_hash
     WHERE r.id = ${runId} AND r.organization_id = ${actor.organization_id}${ofVisiblePipeline(actor, PIPELINE_ID)}`)
  if (!row) throw notFound('Run')
  const { organization_id } = actor
  const kept =
    row.id !== null
      ? openKept(box, { id: row.id, organization_id, config_box: row.config_box })
      : row.plain !== null
        ? readPlain(row.plain)
        : null
  // A run of an earlier release, or of a pipeline with too many different ones.
  if (kept === null) throw notFound('Configuration of this run')
  return show(kept, can(actor, 'connectors:read'))
}

function openKept(box: SecretBox, row: UsedConfig): KeptConfig {
  try {
    return box.open(placeOf(row), row.config_box)
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    throw new AppError('conflict', `The configuration of this run cannot be decrypted. ${error.message}`)
  }
}

/** A row as an earlier release kept it: with fewer masks, and without saying what came from a saved destination. */
export function readPlain(text: string): KeptConfig {
  const kept = JSON.parse(text) as { config: UsableConfig } | { problem: string }
  if (!('config' in kept)) return kept
  const { source, destination, ...rest } = maskConfig(kept.config)
  return { config: { source, destination: { saved_connector_id: null, ...destination }, ...rest } }
}

/** Settings of saved connectors are only for those who may read saved connectors. */
function show(kept: KeptConfig, withSaved: boolean): RunConfig {
  if (!('config' in kept)) return { config: null, problem: kept.problem }
  const { source, destination, ...rest } = kept.config
  const showSide = withSaved ? showWhole : showOwn
  return { config: { source: showSide(source), destination: showSide(destination), ...rest }, problem: null }
}

function showWhole({ overrides: _, saved_connector_id: id, ...side }: KeptSide): object {
  return id ? { ...side, saved_connector_id: id } : side
}

function showOwn(side: KeptSide): object {
  const { saved_connector_id, stream, overrides = {} } = side
  if (saved_connector_id === undefined) return side
  return { saved_connector_id, ...(stream !== undefined && { stream }), config: overrides }
}
