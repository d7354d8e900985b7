/**
 * Supervising one attempt: hands the job to an executor, keeps what it reports, enforces time and memory, and ends the
 * run with the true reason. The executor does the work; nothing of the data passes through here.
 */
import { runPrefix } from '../blobs/run-keys.ts'
import { findReadableParts } from '../connections/readable-outputs.ts'
import { secretsOf } from '../connections/resolve.ts'
import { findDestination } from '../connectors/registry.ts'
import { createRedact, type Redact } from '../connectors/settings/redact.ts'
import { sql } from '../database/database.ts'
import { SecretLost } from '../database/secret-box.ts'
import { untilDatabaseAnswers } from '../database/until-database-answers.ts'
import type { Counts, Job, Outcome } from '../engine/job.ts'
import { formatDuration } from '../engine/sentences.ts'
import { removeStrayParts } from '../engine/stage.ts'
import type { FromExecutor } from '../executors/messages.ts'
import type { Executor, ExecutorPool } from '../executors/pool.ts'
import { findReportFault, trimError } from '../executors/reports.ts'
import type { ClaimedRun } from './claim.ts'
import {
  finishFailed,
  finishSuccess,
  handOver,
  type RunLease,
  retryLater,
  saveCheckpoint,
  saveSchema,
} from './finish.ts'
import { createRunLogWriter, type RunLogWriter } from './log.ts'
import { type PinnedConfig, runPlace } from './trigger.ts'
import type { WorkerServices } from './worker-services.ts'

/** How an attempt ended. `lost` means that the run is no longer ours and nothing more may be written. */
type Verdict =
  | { end: 'success'; outcome: Outcome; reusable: boolean }
  | { end: 'failure'; kind: string; message: string; transient: boolean }
  | { end: 'cancelled' }
  | { end: 'lost' }
  | { end: 'handed over' }

export interface Supervised {
  run: ClaimedRun
  progress: Counts | null
  /** Name of the destination, once the config is open. */
  destination: string
  /** Ends the attempt from outside. The executor is gone when this returns. */
  stop(reason: 'cancelled' | 'lost' | 'handed over'): void
  done: Promise<void>
}

const MEMORY_CHECK_MS = 200
const DEFAULT_BACKOFF_SECONDS = 30
/** A longer one would end at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export function superviseRun(services: WorkerServices, pool: ExecutorPool, run: ClaimedRun): Supervised {
  const stopped = Promise.withResolvers<Verdict>()
  const supervised: Supervised = {
    run,
    progress: null,
    destination: '',
    stop: (reason) => stopped.resolve({ end: reason }),
    done: Promise.resolve(),
  }
  supervised.done = attemptRun(services, pool, supervised, stopped.promise).catch((error: Error) => {
    services.log.error({ err: error, run_id: run.id }, 'supervising a run failed')
  })
  return supervised
}

async function attemptRun(
  services: WorkerServices,
  pool: ExecutorPool,
  supervised: Supervised,
  stopped: Promise<Verdict>,
): Promise<void> {
  const { run } = supervised
  const { pinned, redact } = openConfig(services, run)
  const log = createRunLogWriter(services.db, run, redact)
  if ('problem' in pinned) {
    await conclude(
      services,
      supervised,
      log,
      redact,
      { end: 'failure', kind: 'config', message: pinned.problem, transient: false },
      null,
    )
    return
  }
  supervised.destination = pinned.config.destination.name
  const executor = pool.take()
  const started = Date.now()
  let reusable = false
  try {
    const job = await makeJob(services, run, pinned)
    const verdict = await Promise.race([
      stopped,
      execute(services, supervised, executor, job, log, pinned.config.run.timeout_minutes),
    ])
    trace(services, supervised, pinned.config.source.name, started, verdict)
    reusable = verdict.end === 'success' && verdict.reusable
    // Before anything is written about the end, nothing of it may be at work any more.
    if (!reusable) await endExecutor(executor)
    await conclude(services, supervised, log, redact, verdict, pinned)
  } finally {
    pool.give(executor, reusable)
  }
}

/** All attempts of a run are one trace, and the run's own id is its name. */
function trace(
  { traces }: WorkerServices,
  { run, destination }: Supervised,
  source: string,
  started: number,
  verdict: Verdict,
): void {
  traces?.add({
    name: 'run',
    kind: 'internal',
    started,
    ended: Date.now(),
    failed: verdict.end === 'failure',
    trace_id: run.id.replaceAll('-', ''),
    attributes: {
      'sluice.run_id': run.id,
      'sluice.pipeline_id': run.pipeline_id,
      'sluice.attempt': run.attempt,
      'sluice.source': source,
      'sluice.destination': destination,
      'sluice.end': verdict.end,
      ...(verdict.end === 'failure' && { 'error.type': verdict.kind }),
    },
  })
}

async function endExecutor(executor: Executor): Promise<void> {
  executor.kill()
  await executor.ended
}

function openConfig(services: WorkerServices, run: ClaimedRun): { pinned: PinnedConfig; redact: Redact } {
  try {
    const pinned = services.box.open<PinnedConfig>(runPlace(run.organization_id, run.id), run.config_box)
    return { pinned, redact: createRedact('config' in pinned ? secretsOf(pinned.config) : []) }
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    return {
      pinned: { problem: `The configuration of this run can not be opened. ${error.message}.` },
      redact: (text) => text,
    }
  }
}

async function makeJob(
  services: WorkerServices,
  run: ClaimedRun,
  pinned: Extract<PinnedConfig, { config: unknown }>,
): Promise<Job> {
  const { config } = pinned
  return {
    run_id: run.id,
    seq: run.seq,
    attempt: run.attempt,
    organization_id: run.organization_id,
    pipeline_id: run.pipeline_id,
    source: config.source,
    destination: config.destination,
    sync: config.sync,
    columns: config.columns,
    keep_output: config.run.keep_output ?? true,
    state: run.state_seq === null ? null : { seq: run.state_seq, cursor: run.state_cursor },
    resume:
      run.checkpoint === 0
        ? null
        : {
            checkpoint: run.checkpoint,
            cursor: run.cursor,
            parts: run.parts,
            records_read: run.records_read,
            records_written: run.records_written,
            bytes_written: run.bytes_written,
          },
    schema: run.schema_columns,
    outputs: await readableOutputs(services, run, config.source),
  }
}

/** Only outputs of the organization's own runs are handed over, and of those only the one that the source names. */
async function readableOutputs(
  services: WorkerServices,
  run: ClaimedRun,
  source: Job['source'],
): Promise<Job['outputs']> {
  const wanted = source.name === 'file' && typeof source.config.run_id === 'string' ? source.config.run_id : null
  if (wanted === null) return {}
  const parts = await findReadableParts(services.db, run.organization_id, wanted)
  return parts ? { [wanted]: parts } : {}
}

/** Runs the job and resolves with how it ended; it rejects never. */
function execute(
  services: WorkerServices,
  supervised: Supervised,
  executor: Executor,
  job: Job,
  log: RunLogWriter,
  timeoutMinutes: number | undefined,
): Promise<Verdict> {
  const { run } = supervised
  const { promise, resolve } = Promise.withResolvers<Verdict>()
  const config = services.config
  const started = Date.now()
  const minutes = timeoutMinutes ?? config.RUN_TIMEOUT_MINUTES
  const limit = setTimeout(
    () =>
      resolve({
        end: 'failure',
        kind: 'timeout',
        message: `the run took longer than ${minutes} minutes; give it more with config.run.timeout_minutes, or read less`,
        transient: true,
      }),
    Math.min(minutes * 60_000, LONGEST_TIMER_MS),
  )
  const memory = setInterval(() => {
    const used = executor.residentMb()
    if (used > config.RUN_MEMORY_MB) resolve(outOfMemory(config.RUN_MEMORY_MB, used))
  }, MEMORY_CHECK_MS)
  executor.onMessage((message) => {
    receive(services, supervised, executor, log, message, resolve).catch((error: Error) => {
      services.log.error({ err: error, run_id: run.id }, 'a message of an executor could not be dealt with')
      resolve({
        end: 'failure',
        kind: 'internal',
        message: 'the worker could not deal with what its executor reported',
        transient: true,
      })
    })
  })
  void executor.ended.then(({ code, signal, stderr }) =>
    resolve(explainEnd(code, signal, stderr, config.RUN_MEMORY_MB)),
  )
  executor.send({ type: 'run', job })
  void promise.then(() => {
    clearTimeout(limit)
    clearInterval(memory)
    services.log.debug({ run_id: run.id, ms: Date.now() - started }, 'attempt ended')
  })
  return promise
}

async function receive(
  services: WorkerServices,
  supervised: Supervised,
  executor: Executor,
  log: RunLogWriter,
  message: FromExecutor,
  resolve: (verdict: Verdict) => void,
): Promise<void> {
  const { run } = supervised
  const fault = findReportFault(run, message)
  if (fault !== null)
    return resolve({
      end: 'failure',
      kind: 'internal',
      message: `the executor reported something that can not be kept: ${fault}`,
      transient: false,
    })
  switch (message.type) {
    case 'ready':
      return
    case 'log':
      for (const [level, text] of message.entries) log.write(level, text)
      return
    case 'progress':
      supervised.progress = message.counts
      return
    case 'schema':
      for (const change of message.changes) log.write('info', change)
      await untilDatabaseAnswers(() => saveSchema(services.db, run, message.columns, message.changes)).catch(() => 0)
      return
    case 'checkpoint': {
      const over = await overQuota(services, run, message.checkpoint.parts)
      if (over) return resolve({ end: 'failure', kind: 'limit', message: over, transient: false })
      const saved = await untilDatabaseAnswers(() => saveCheckpoint(services.db, run, message.checkpoint)).catch(
        () => false,
      )
      if (!saved) return resolve({ end: 'lost' })
      run.checkpoint = message.checkpoint.checkpoint
      return executor.send({ type: 'saved', id: message.id })
    }
    case 'success': {
      // Where the output is all there is, its last part is told only now; elsewhere every part came with a checkpoint.
      const late = findDestination(supervised.destination)?.capabilities.commits === 'output'
      const over = late ? await overQuota(services, run, message.outcome.output?.parts ?? []) : null
      return resolve(
        over
          ? { end: 'failure', kind: 'limit', message: over, transient: false }
          : { end: 'success', outcome: message.outcome, reusable: message.reusable === true },
      )
    }
    case 'failure':
      return resolve({ end: 'failure', kind: message.kind, message: message.message, transient: message.transient })
  }
}

async function overQuota(services: WorkerServices, run: ClaimedRun, parts: { size: number }[]): Promise<string | null> {
  const gigabytes = services.config.ORG_STORAGE_GB
  if (gigabytes === undefined) return null
  const own = parts.reduce((sum, part) => sum + part.size, 0)
  const row = await untilDatabaseAnswers(() =>
    services.db.first<{ stored: number }>(sql`
      SELECT coalesce(sum(output_file_size), 0)::bigint AS stored FROM runs WHERE organization_id = ${run.organization_id} AND output_file IS NOT NULL`),
  )
  if ((row?.stored ?? 0) + own <= gigabytes * 1e9) return null
  return `the outputs of your organization would take more than ${gigabytes} GB; delete pipelines that are no longer needed, or set config.run.keep_output to false`
}

const outOfMemory = (limitMb: number, usedMb: number): Verdict => ({
  end: 'failure',
  kind: 'memory',
  message: `the run used ${Math.round(usedMb)} MB of memory and may use ${limitMb}; an operator can raise RUN_MEMORY_MB`,
  transient: false,
})

function explainEnd(code: number | null, signal: string | null, stderr: string, limitMb: number): Verdict {
  if (/heap out of memory|Allocation failed/i.test(stderr)) return outOfMemory(limitMb, limitMb)
  const how = signal ? `it was ended by ${signal}` : `it ended with code ${code}`
  return {
    end: 'failure',
    kind: 'internal',
    message: `the executor ended in the middle of the run (${how})`,
    transient: true,
  }
}

/** Writes the end of the attempt. Where the database is away, this waits for it: the end is true and must be kept. */
async function conclude(
  services: WorkerServices,
  { run, progress }: Supervised,
  log: RunLogWriter,
  redact: Redact,
  verdict: Verdict,
  pinned: Extract<PinnedConfig, { config: unknown }> | null,
): Promise<void> {
  const { db, blobs } = services
  const held: RunLease = run
  if (verdict.end === 'lost') return
  if (verdict.end === 'cancelled') {
    log.write(
      'info',
      run.checkpoint > 0
        ? 'The run was stopped. Checkpoints that were already committed stay; the next run goes on from there.'
        : 'The run was stopped.',
    )
    await log.flush()
    await removeStrayParts(blobs, runPrefix(run), []).catch(() => 0)
    return
  }
  if (verdict.end === 'handed over') {
    log.write('info', 'The worker is shutting down; another one goes on from the last checkpoint.')
    const rest = await log.rest()
    await untilDatabaseAnswers(() => handOver(db, held, { log: rest }))
    return
  }
  if (verdict.end === 'success') {
    const rest = await log.rest()
    await untilDatabaseAnswers(() =>
      finishSuccess(db, held, {
        outcome: verdict.outcome,
        incremental: pinned!.config.sync.mode === 'incremental',
        log: rest,
      }),
    )
    return
  }
  const error = trimError(redact(`${verdict.kind}: ${verdict.message}`))
  const tries = run.failed_attempts + 1
  const { max_attempts = 1, backoff_seconds = DEFAULT_BACKOFF_SECONDS } = pinned?.config.run ?? {}
  if (verdict.transient && tries < max_attempts) {
    const wait = backoff_seconds * 2 ** (tries - 1)
    log.write(
      'warn',
      `Attempt ${tries} of ${max_attempts} failed: ${verdict.message}. The next one begins in ${formatDuration(wait * 1000)}.`,
    )
    const rest = await log.rest()
    await untilDatabaseAnswers(() => retryLater(db, held, error, wait, { log: rest, counts: progress }))
    return
  }
  log.write('error', `The run failed. ${error}`)
  const rest = await log.rest()
  const ended = await untilDatabaseAnswers(() => finishFailed(db, held, error, { log: rest, counts: progress }))
  if (ended) await removeStrayParts(blobs, runPrefix(run), []).catch(() => 0)
}
