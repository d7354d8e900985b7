/**
 * Pipelines. Permissions are those of the pipeline's domain; moving one needs them on both sides. The config is
 * encrypted and bound to the row's id; what lists and lookups need of it is also in plain columns.
 */
import { randomUUID } from 'node:crypto'
import { describeMissingRun } from '../connections/endpoint-faults.ts'
import { refuse } from '../connections/faults.ts'
import type { SecretRules } from '../connections/kept-secrets.ts'
import { hasMask, restoreMasks } from '../connections/masks.ts'
import { findUnreadableRun } from '../connections/readable-outputs.ts'
import { loadReferences, outputsOf, type References, wantedBy } from '../connections/references.ts'
import { resolveSource } from '../connections/resolve.ts'
import { keepNewerToken } from '../connections/superseded-tokens.ts'
import { holdReferences, refersToRows } from '../connections/uses.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { findSource } from '../connectors/registry.ts'
import {
  FOREIGN_KEY_VIOLATION,
  isDatabaseError,
  lockForTransaction,
  type Queryable,
  type Statement,
  sql,
  type Transactions,
} from '../database/database.ts'
import { countUpTo } from '../database/lists.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { AppError, notFound } from '../errors.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { audit, auditStatement, fieldsOf } from '../tenancy/audit.ts'
import { can } from '../tenancy/permissions.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'
import { type ConfigSummary, checkConfig, type RunLimits } from './config.ts'
import type { PipelineConfig } from './config-shape.ts'
import { maskPipelineConfig } from './masks.ts'
import { noticeChange } from './notice.ts'
import { openPipelineConfig, placeOfPipeline, resolveWith } from './resolve.ts'
import { checkSchedule, checkTimezone } from './schedule.ts'
import { restoreStored } from './stored-secrets.ts'
import { forgetTotals } from './totals.ts'

export interface Pipeline {
  id: string
  name: string
  schedule: string | null
  timezone: string | null
  enabled: boolean
  domain_id: string | null
  created_at: string
}

export interface PipelineRow extends Pipeline {
  organization_id: string
  config_box: Buffer
  updated_at: string | null
}

export interface Stores {
  db: Transactions
  box: SecretBox
  /** The configuration of the service. */
  config: RunLimits & SecretRules & { ORG_MAX_PIPELINES?: number | undefined }
}

export interface Timing {
  schedule?: string | null
  timezone?: string | null
  enabled?: boolean
}

export interface PipelineInput extends Timing {
  name: string
  config: unknown
  domain_id?: string | null
}

const view = sql`id, name, schedule, timezone, enabled, domain_id, created_at`
const whole = sql`${view}, organization_id, config_box, updated_at`

export async function createPipeline(stores: Stores, actor: Actor, input: PipelineInput): Promise<Pipeline> {
  const { db, box } = stores
  const create = async (tx: Queryable) => {
    const references = await enterDomain(tx, actor, input.config, input.domain_id ?? null)
    const { config, summary } = checkConfig(
      restoreMasks(input.config, undefined, 'config'),
      references,
      box,
      stores.config,
    )
    await requireReadableRuns({ db: tx, box }, actor, config, references)
    const timing = readTiming(input, references.now)
    const row = { ...timing, id: randomUUID(), name: input.name, domain_id: input.domain_id ?? null, config, summary }
    await requireRoom(tx, stores, actor, 1)
    return insertPipeline({ db: tx, box }, actor, row)
  }
  const needsLocks = stores.config.ORG_MAX_PIPELINES !== undefined || refersToRows(wantedBy(input.config))
  const made = await (needsLocks ? db.transaction(create) : create(db))
  forgetTotals(actor.organization_id)
  return made
}

/**
 * With its config; secrets are masked for callers without write permission in its domain, or for everyone if the
 * operator configured that.
 */
export async function readPipeline(
  { db, box, config: rules }: Stores,
  actor: Actor,
  id: string,
  masked = false,
): Promise<Pipeline & { config: PipelineConfig; updated_at: string | null }> {
  const { config_box: _box, organization_id: _organization, ...pipeline } = await findPipeline(db, actor, id)
  const config = openConfig(box, { id, organization_id: actor.organization_id, config_box: _box })
  const readable = !masked && rules.SECRETS === 'readable' && can(actor, 'pipelines:write', pipeline.domain_id)
  return { ...pipeline, config: readable ? config : maskPipelineConfig(config) }
}

/** Absent fields stay unchanged; null clears schedule, timezone and domain. `notice` names a consequence of the change. */
export async function updatePipeline(
  stores: Stores,
  actor: Actor,
  id: string,
  input: Partial<PipelineInput>,
): Promise<Pipeline & { notice?: string }> {
  const changed = await stores.db
    .transaction((tx) => changePipeline(tx, stores, actor, { id, input }))
    .catch(explainLostDomain)
  forgetTotals(actor.organization_id)
  return changed
}

/** Everything that `updatePipeline` does, taken back: what would be refused, or what the notice would be. */
export async function tryUpdate(
  stores: Stores,
  actor: Actor,
  id: string,
  input: Partial<PipelineInput>,
): Promise<Pipeline & { notice?: string }> {
  let changed: (Pipeline & { notice?: string }) | undefined
  const rollBack = new Error('A trial is not committed')
  await stores.db
    .transaction(async (tx) => {
      changed = await changePipeline(tx, stores, actor, { id, input })
      throw rollBack
    })
    .catch((error: unknown) => error === rollBack || explainLostDomain(error))
  return changed!
}

async function changePipeline(
  tx: Queryable,
  stores: Stores,
  actor: Actor,
  { id, input }: { id: string; input: Partial<PipelineInput> },
): Promise<Pipeline & { notice?: string }> {
  const { box } = stores
  const row = await lockPipeline(tx, actor, id)
  requirePermission(actor, 'pipelines:write', row.domain_id)
  const domainId = input.domain_id === undefined ? row.domain_id : input.domain_id
  const references = await enterDomain(tx, actor, input.config, domainId)
  // A mask is what a reader sees: whoever cannot read a secret must not be able to keep it and change its address.
  if (hasMask(input.config)) requirePermission(actor, 'pipelines:read', row.domain_id)
  const changed = input.config === undefined ? null : checkNewConfig(stores, row, input.config, references)
  if (changed) await requireReadableRuns({ db: tx, box }, actor, changed.config, references)
  const timing = retime(row, input, references.now)
  const notice = changed && (await noticeChange(tx, box, row, resolveWith(changed.config, references, box)))
  const sealed = changed ? await sealNewConfig(tx, box, row, changed.config) : row.config_box
  const summary = changed
    ? sql`, source_name = ${changed.summary.source_name}, stream = ${changed.summary.stream}, destination_name = ${changed.summary.destination_name},
              saved_source_id = ${changed.summary.saved_source_id}, saved_destination_id = ${changed.summary.saved_destination_id}`
    : sql``
  const updated = await tx.first<Pipeline>(sql`
      UPDATE pipelines SET name = ${input.name ?? row.name}, config_box = ${sealed}, domain_id = ${domainId}, updated_at = now(),
             schedule = ${timing.schedule}, timezone = ${timing.timezone}, enabled = ${timing.enabled}${timing.moved}${summary}
       WHERE id = ${id} RETURNING ${view}`)
  const details = {
    name: updated!.name,
    fields: fieldsOf(input, ['name', 'config', 'schedule', 'timezone', 'enabled', 'domain_id']),
  }
  await audit(tx, actor, 'pipeline.updated', { type: 'pipeline', id, details })
  return notice ? { ...updated!, notice } : updated!
}

export async function findPipeline(db: Queryable, actor: Actor, id: string): Promise<PipelineRow> {
  const row = await db.first<PipelineRow>(
    sql`SELECT ${whole} FROM pipelines WHERE organization_id = ${actor.organization_id} AND id = ${id}${inVisibleDomain(actor)}`,
  )
  if (!row) throw notFound('Pipeline')
  return row
}

export async function lockPipeline(tx: Queryable, actor: Actor, id: string): Promise<PipelineRow> {
  const row = await tx.first<PipelineRow>(
    sql`SELECT ${whole} FROM pipelines WHERE organization_id = ${actor.organization_id} AND id = ${id}${inVisibleDomain(actor)} FOR UPDATE`,
  )
  if (!row) throw notFound('Pipeline')
  return row
}

/** The references of the config, after checking that the domain exists and that the actor may write in it. */
export async function enterDomain(
  db: Queryable,
  actor: Actor,
  config: unknown,
  domainId: string | null,
): Promise<References> {
  const wanted = wantedBy(config)
  await holdReferences(db, actor.organization_id, wanted)
  const references = await loadReferences(db, actor.organization_id, wanted, domainId)
  if (domainId !== null && references.domain === null) throw notFound('Domain')
  requirePermission(actor, 'pipelines:write', domainId)
  return references
}

/**
 * A source may name the output of a run, itself or in a saved connector. An actor who cannot read that run must not get
 * its output through a pipeline. Call it with the checked config, in which masks are replaced.
 */
export async function requireReadableRuns(
  { db, box }: { db: Queryable; box: SecretBox },
  actor: Actor,
  { source }: PipelineConfig,
  references: References,
): Promise<void> {
  const { name, config } = resolveSource(source, references, box)
  const run = await findUnreadableRun(db, actor, outputsOf(findSource(name), config))
  if (run !== null) throw refuse([describeMissingRun(source, run, 'config.source')])
}

/** A config whose key is lost only affects this pipeline: a conflict with a message that says what to do. */
export function openConfig(
  box: SecretBox,
  row: { id: string; organization_id: string; config_box: Buffer },
): PipelineConfig {
  try {
    return openPipelineConfig(box, row)
  } catch (error) {
    throw error instanceof ConnectorError ? new AppError('conflict', error.message) : error
  }
}

function checkNewConfig({ box, config }: Stores, row: PipelineRow, given: unknown, references: References) {
  if (!hasMask(given)) return checkConfig(given, references, box, config)
  return checkConfig(restoreStored(given, openConfig(box, row), config, 'config.'), references, box, config)
}

async function sealNewConfig(tx: Queryable, box: SecretBox, row: PipelineRow, config: PipelineConfig): Promise<Buffer> {
  const kept = await keepNewerToken(tx, box, { ...row, table: 'pipelines' }, config)
  return box.seal(placeOfPipeline(row), kept)
}

export interface CheckedTiming {
  schedule: string | null
  timezone: string | null
  enabled: boolean
  next_run_at: Date | null
}

/** An empty schedule means that runs are only triggered manually. */
export function readTiming(given: Timing, now: Date): CheckedTiming {
  const schedule = given.schedule?.trim() || null
  const timezone = given.timezone ?? null
  const enabled = given.enabled ?? true
  if (timezone !== null) checkTimezone(timezone)
  const next = schedule === null ? null : checkSchedule(schedule, timezone, now)
  return { schedule, timezone, enabled, next_run_at: enabled ? next : null }
}

/** The next time only changes with what determines it: sending the same schedule again must not skip a due tick. */
function retime(row: Pipeline, input: Timing, now: Date): CheckedTiming & { moved: Statement } {
  const timing = readTiming(
    {
      schedule: input.schedule === undefined ? row.schedule : input.schedule,
      timezone: input.timezone === undefined ? row.timezone : input.timezone,
      enabled: input.enabled ?? row.enabled,
    },
    now,
  )
  const same = timing.schedule === row.schedule && timing.timezone === row.timezone && timing.enabled === row.enabled
  return { ...timing, moved: same ? sql`` : sql`, next_run_at = ${timing.next_run_at}` }
}

export interface NewPipeline extends CheckedTiming {
  id: string
  name: string
  domain_id: string | null
  config: PipelineConfig
  summary: ConfigSummary
}

/** ORG_MAX_PIPELINES. Concurrent creations are serialized; otherwise all would find the last slot free. */
export async function requireRoom(tx: Queryable, { config }: Stores, actor: Actor, wanted: number): Promise<void> {
  const most = config.ORG_MAX_PIPELINES
  if (most === undefined) return
  await lockForTransaction(tx, `pipelines ${actor.organization_id}`)
  const existing = await countUpTo(
    tx,
    sql`SELECT 1 FROM pipelines WHERE organization_id = ${actor.organization_id}`,
    most + 1,
  )
  if (existing + wanted > most)
    throw new AppError(
      'conflict',
      `Your organization has ${existing} pipelines, and the limit is ${most}; delete some that are no longer needed`,
    )
}

export async function insertPipeline(
  { db, box }: { db: Queryable; box: SecretBox },
  actor: Actor,
  row: NewPipeline,
  action = 'pipeline.created',
): Promise<Pipeline> {
  const { id, summary } = row
  const sealed = box.seal(placeOfPipeline({ id, organization_id: actor.organization_id }), row.config)
  const made = db.first<Pipeline>(sql`
      WITH logged AS (${auditStatement(actor, action, { type: 'pipeline', id, details: { name: row.name, domain_id: row.domain_id } })})
      INSERT INTO pipelines (id, organization_id, name, config_box, source_name, stream, destination_name, saved_source_id, saved_destination_id,
                             schedule, timezone, enabled, domain_id, next_run_at, created_by)
      VALUES (${id}, ${actor.organization_id}, ${row.name}, ${sealed}, ${summary.source_name}, ${summary.stream}, ${summary.destination_name},
              ${summary.saved_source_id}, ${summary.saved_destination_id}, ${row.schedule}, ${row.timezone}, ${row.enabled}, ${row.domain_id},
              ${row.next_run_at}, ${actor.user_id})
      RETURNING ${view}`)
  return (await made.catch(explainLostDomain))!
}

/** The domain was deleted between the check and the change. */
function explainLostDomain(error: unknown): never {
  throw isDatabaseError(error, FOREIGN_KEY_VIOLATION) ? notFound('Domain') : error
}
