/**
 * Starts due pipelines. They are claimed in batches with SKIP LOCKED, so any number of schedulers may run: each batch
 * is one transaction that advances the due times and inserts the runs. If more are due than fit into one, organizations share
 * the others, so that one with thousands of them does not delay the rest. If it fails, its pipelines are started one by one,
 * and one that fails again is postponed. The clock is the database's. A pipeline whose last run has not ended is skipped,
 * and that run's log says so; after downtime a pipeline runs once, because its next time is computed from now.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { loadManyReferences, wantedBy } from '../connections/references.ts'
import { findSource } from '../connectors/registry.ts'
import { type Connections, type Queryable, type Statement, sql } from '../database/database.ts'
import { wakeWorkers } from '../database/notifications.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { DatabaseUnavailable } from '../database/unreachable.ts'
import { openPipelineConfig, resolveWith } from '../pipelines/resolve.ts'
import { nextTime } from '../pipelines/schedule.ts'
import { appendLine } from '../runs/log.ts'
import { type PinnedConfig, pinConfig, placeRun, versionOf } from '../runs/pinned-config.ts'
import { runPlace } from '../runs/trigger.ts'
import { keepUsedConfigs, usedConfigOf } from '../runs/used-config.ts'

const BATCH = 500
/** Most configs are small, but not all of a batch may be in memory at once if they are not. */
const PINNED_BYTES = 4 * 1024 * 1024
/** What a saved connector or a custom source is counted as. Each may be some hundred kilobytes, so fifty at once. */
const REFERENCE_BYTES = PINNED_BYTES / 50

interface DuePipeline {
  id: string
  organization_id: string
  name: string
  schedule: string
  timezone: string | null
  now: string
  busy_run_id: string | null
  config_bytes: number
  source_name: string | null
  uses_saved: boolean
}

/** A pipeline that cannot be started would fail its batch again at every tick. */
const POSTPONED_SECONDS = 300
/** If the connection broke, that is hardly the pipeline's fault, but it may be. */
const AFTER_OUTAGE_SECONDS = 10

/** While one batch waits for the database, another computes times and encrypts configurations. */
const PARALLEL_BATCHES = 2

interface Tools {
  db: Connections
  box: SecretBox
  log: Logger
  podClasses: readonly string[]
}

/** Starts due pipelines and returns their number. */
export async function scheduleDuePipelines(
  db: Connections,
  box: SecretBox,
  log: Logger,
  podClasses: readonly string[] = [],
): Promise<number> {
  const tools = { db, box, log, podClasses }
  const first = await scheduleBatch(tools, oldestDue)
  if (first < BATCH) return first
  const rest = await Promise.all(Array.from({ length: PARALLEL_BATCHES }, () => scheduleAll(tools)))
  return rest.reduce((sum, count) => sum + count, first)
}

async function scheduleAll(tools: Tools): Promise<number> {
  let total = 0
  for (;;) {
    const handled = await scheduleBatch(tools, sharedDue)
    total += handled
    if (handled < BATCH) return total
  }
}

/** One pipeline that cannot be started must not stop those that share its batch, so they are tried separately then. */
async function scheduleBatch(tools: Tools, choice: Statement): Promise<number> {
  let ids: string[] = []
  try {
    return await tools.db.transaction(async (tx) => {
      ids = await lockDue(tx, choice)
      return startDue(tx, tools, ids)
    })
  } catch (error) {
    if (ids.length === 0) throw error
    tools.log.warn(
      { err: error },
      `${ids.length} due pipelines could not be started together; starting them separately`,
    )
    let handled = 0
    for (const id of ids) handled += await scheduleOne(tools, id)
    return handled
  }
}

async function scheduleOne({ db, log, ...tools }: Tools, id: string): Promise<number> {
  try {
    return await db.transaction(async (tx) => startDue(tx, { ...tools, log }, await lockDue(tx, onlyDue(id))))
  } catch (error) {
    const seconds = error instanceof DatabaseUnavailable ? AFTER_OUTAGE_SECONDS : POSTPONED_SECONDS
    const message = `a due pipeline could not be started; trying again in ${seconds} seconds`
    return postpone(db, id, seconds).then(
      (count) => {
        log.error({ err: error, pipeline_id: id }, message)
        return count
      },
      (failure: Error) => {
        if (failure instanceof DatabaseUnavailable) throw failure
        log.error({ err: failure, pipeline_id: id }, 'a due pipeline could be neither started nor postponed')
        return 0
      },
    )
  }
}

/** Only if it is still due: a schedule that was changed meanwhile wins. */
const postpone = (db: Connections, id: string, seconds: number): Promise<number> =>
  db.execute(sql`
    UPDATE pipelines SET next_run_at = now() + make_interval(secs => ${seconds}) WHERE id = ${id} AND enabled AND next_run_at <= now()`)

/** `pipeline_due` has their times in an index; the row that is locked decides. */
const oldestDue = sql`
  SELECT p.id FROM pipeline_due d JOIN pipelines p ON p.id = d.pipeline_id
   WHERE d.next_run_at <= now() AND p.enabled AND p.next_run_at <= now()
   ORDER BY d.next_run_at LIMIT ${BATCH} FOR NO KEY UPDATE OF p SKIP LOCKED`

const onlyDue = (id: string): Statement => sql`
  SELECT id FROM pipelines WHERE enabled AND next_run_at <= now() AND id = ${id} FOR NO KEY UPDATE SKIP LOCKED`

/**
 * The first of every organization before the second of any. Organizations are found by a loose index scan; each offers its
 * share of what all batches take together. What other batches have locked is passed over.
 */
const sharedDue = sql`
  WITH RECURSIVE organization AS (
    (SELECT organization_id FROM pipeline_due ORDER BY organization_id LIMIT 1)
    UNION ALL
    SELECT n.organization_id FROM organization o CROSS JOIN LATERAL (
      SELECT d.organization_id FROM pipeline_due d WHERE d.organization_id > o.organization_id ORDER BY d.organization_id LIMIT 1) n
  ), due AS MATERIALIZED (
    SELECT o.organization_id FROM organization o
     WHERE EXISTS (SELECT 1 FROM pipeline_due d WHERE d.organization_id = o.organization_id AND d.next_run_at <= now())
  ), candidate AS MATERIALIZED (
    SELECT c.pipeline_id, c.next_run_at, row_number() OVER (PARTITION BY o.organization_id ORDER BY c.next_run_at) AS turn
      FROM due o CROSS JOIN LATERAL (
        SELECT d.pipeline_id, d.next_run_at FROM pipeline_due d WHERE d.organization_id = o.organization_id AND d.next_run_at <= now()
         ORDER BY d.next_run_at, d.pipeline_id LIMIT (SELECT ceil(${BATCH * (PARALLEL_BATCHES + 1)}::float8 / count(*)) FROM due)) c
  )
  SELECT p.id FROM candidate c JOIN pipelines p ON p.id = c.pipeline_id WHERE p.enabled AND p.next_run_at <= now()
   ORDER BY c.turn, c.next_run_at LIMIT ${BATCH} FOR NO KEY UPDATE OF p SKIP LOCKED`

const lockDue = async (tx: Queryable, choice: Statement): Promise<string[]> =>
  (await tx.query<{ id: string }>(choice)).map(({ id }) => id)

async function startDue(tx: Queryable, tools: Omit<Tools, 'db'>, ids: string[]): Promise<number> {
  if (ids.length === 0) return 0
  const { box, log } = tools
  // A separate statement, whose snapshot is newer than the locks: the first one may not have seen a run that was triggered
  // just before its pipeline was locked.
  const due = await tx.query<DuePipeline>(sql`
    SELECT p.id, p.organization_id, p.name, p.schedule, p.timezone, now() AS now, octet_length(p.config_box) AS config_bytes, p.source_name,
           p.saved_source_id IS NOT NULL OR p.saved_destination_id IS NOT NULL AS uses_saved,
           (SELECT r.id FROM runs r WHERE r.pipeline_id = p.id AND r.status IN ('pending', 'running') ORDER BY r.seq DESC LIMIT 1) AS busy_run_id
      FROM pipelines p WHERE p.id = ANY (${ids}::uuid[]) ORDER BY p.next_run_at`)
  await advanceDueTimes(tx, due, log)
  const free = due.filter((pipeline) => pipeline.busy_run_id === null)
  for (const some of splitBySize(free)) await insertRuns(tx, tools, some, await pinConfigs(tx, box, some))
  for (const pipeline of due) if (pipeline.busy_run_id !== null) await noteSkipped(tx, pipeline, log)
  if (free.length > 0) await tx.execute(wakeWorkers(free.length))
  return due.length
}

function splitBySize(pipelines: readonly DuePipeline[]): DuePipeline[][] {
  const parts: DuePipeline[][] = []
  let bytes = PINNED_BYTES
  for (const pipeline of pipelines) {
    const refers = pipeline.uses_saved || !findSource(pipeline.source_name ?? '')
    const size = pipeline.config_bytes + (refers ? REFERENCE_BYTES : 0)
    bytes += size
    if (bytes > PINNED_BYTES) {
      parts.push([])
      bytes = size
    }
    parts.at(-1)!.push(pipeline)
  }
  return parts
}

const advanceDueTimes = (tx: Queryable, due: DuePipeline[], log: Logger): Promise<number> => {
  // Many pipelines share a schedule such as "daily at six": it is evaluated once per batch.
  const known = new Map<string, Date | null>()
  const next = due.map((pipeline) => {
    const key = `${pipeline.schedule}\n${pipeline.timezone}`
    if (!known.has(key)) known.set(key, nextTimeOf(pipeline, log))
    return known.get(key)!
  })
  return tx.execute(sql`
    UPDATE pipelines p SET next_run_at = u.next FROM unnest(${due.map(({ id }) => id)}::uuid[], ${next}::timestamptz[]) AS u (id, next) WHERE p.id = u.id`)
}

function nextTimeOf({ id, schedule, timezone, now }: DuePipeline, log: Logger): Date | null {
  try {
    return nextTime(schedule, timezone, new Date(now))
  } catch (error) {
    // One invalid schedule must not block all others.
    log.error({ err: error, pipeline_id: id }, 'a schedule cannot be parsed; the pipeline is no longer scheduled')
    return null
  }
}

async function pinConfigs(tx: Queryable, box: SecretBox, pipelines: DuePipeline[]): Promise<PinnedConfig[]> {
  const boxes = await tx.query<{ id: string; config_box: Buffer }>(
    sql`SELECT id, config_box FROM pipelines WHERE id = ANY (${pipelines.map(({ id }) => id)}::uuid[])`,
  )
  const boxOf = new Map(boxes.map(({ id, config_box }) => [id, config_box]))
  const opened = await Promise.all(
    pipelines.map((pipeline) => open(box, { ...pipeline, config_box: boxOf.get(pipeline.id)! })),
  )
  const references = await loadManyReferences(
    tx,
    opened.map((config, index) => ({
      ...wantedBy('config' in config ? config.config : null),
      organization_id: pipelines[index]!.organization_id,
    })),
  )
  return Promise.all(
    opened.map((config, index) =>
      'config' in config ? pinConfig(() => resolveWith(config.config, references[index]!, box)) : config,
    ),
  )
}

type Opened = { config: ReturnType<typeof openPipelineConfig> } | { problem: string }

async function open(box: SecretBox, pipeline: DuePipeline & { config_box: Buffer }): Promise<Opened> {
  try {
    return { config: openPipelineConfig(box, pipeline) }
  } catch (error) {
    return { problem: (error as Error).message }
  }
}

async function insertRuns(
  tx: Queryable,
  { box, podClasses }: Omit<Tools, 'db'>,
  pipelines: DuePipeline[],
  resolved: PinnedConfig[],
): Promise<void> {
  const placed = resolved.map((config) => placeRun(config, podClasses))
  const pinned = placed.map((run) => run.pinned)
  const ids = pipelines.map(() => randomUUID())
  const boxes = pipelines.map((pipeline, index) =>
    box.seal(runPlace(pipeline.organization_id, ids[index]!), pinned[index]),
  )
  const used = pinned.map((config, index) => usedConfigOf(box, pipelines[index]!, config))
  await tx.execute(sql`
    WITH kept AS (${keepUsedConfigs(used)})
    INSERT INTO runs (id, organization_id, pipeline_id, triggered_by, config_box, source_version, used_config_id, pod_class, ready)
    SELECT u.id, u.organization_id, u.pipeline_id, 'schedule', u.config_box, u.source_version, u.used_config_id, u.pod_class, true
      FROM unnest(${ids}::uuid[], ${pipelines.map((p) => p.organization_id)}::uuid[], ${pipelines.map((p) => p.id)}::uuid[],
                  ${boxes}::bytea[], ${pinned.map(versionOf)}::int[], ${used.map(({ id }) => id)}::uuid[], ${placed.map((run) => run.pod_class)}::text[])
           AS u (id, organization_id, pipeline_id, config_box, source_version, used_config_id, pod_class)`)
}

async function noteSkipped(tx: Queryable, pipeline: DuePipeline, log: Logger): Promise<void> {
  log.info({ pipeline_id: pipeline.id }, `skipped a scheduled run of ${pipeline.name}: its last run has not ended`)
  await appendLine(
    tx,
    pipeline.busy_run_id!,
    'info',
    'The pipeline was due again before this run had ended; that scheduled run was skipped.',
  )
}
