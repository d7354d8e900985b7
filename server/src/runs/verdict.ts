/**
 * The result of an attempt, and what is written about it. Nothing here deals with processes or messages: supervise.ts
 * determines the verdict, this writes it. While the database is unavailable, writing is retried for two minutes. After
 * that the result is given up: the lease has expired, and another worker resumes from the last checkpoint.
 */
import type { Logger } from 'pino'
import { findDestination } from '../connectors/registry.ts'
import { retryWhileUnavailable } from '../database/retry-while-unavailable.ts'
import type { Outcome } from '../engine/job.ts'
import { formatDuration } from '../engine/sentences.ts'
import { trimError } from '../executors/reports.ts'
import { makeFingerprint } from '../pipelines/fingerprint.ts'
import type { Attempt, StopReason } from './attempt.ts'
import type { ClaimedRun } from './claim.ts'
import { finishFailed, handOver, type NextClaim, retryLater } from './finish.ts'

export type Verdict = Success | Failure | { end: StopReason }

interface Success {
  end: 'success'
  outcome: Outcome
  /** The executor may be used again. */
  reusable: boolean
}

export interface Failure {
  end: 'failure'
  kind: string
  message: string
  /** A retry may help. */
  transient: boolean
}

const DEFAULT_BACKOFF_SECONDS = 30
/** How long a worker that was cut off tries to hand its run over. */
const CUT_OFF_MS = 30 * 60_000

export const failure = (kind: string, message: string, transient: boolean): Failure => ({
  end: 'failure',
  kind,
  message,
  transient,
})

export const outOfMemory = (limitMb: number, usedMb: number): Failure =>
  failure(
    'memory',
    `the run used ${Math.round(usedMb)} MB of memory, more than the limit of ${limitMb} MB; an operator can raise RUN_MEMORY_MB`,
    false,
  )

export const timedOut = (minutes: number): Failure =>
  failure(
    'timeout',
    `the run took longer than ${minutes} minutes; raise config.run.timeout_minutes, up to the operator's RUN_TIMEOUT_MINUTES, or read less`,
    true,
  )

/** For an executor that exited without reporting a result. */
export function explainExit(
  { code, signal, stderr }: { code: number | null; signal: string | null; stderr: string },
  limitMb: number,
): Failure {
  if (/heap out of memory|Allocation failed/i.test(stderr)) return outOfMemory(limitMb, limitMb)
  const how = signal ? `killed by ${signal}` : `exit code ${code}`
  return failure('internal', `the executor exited in the middle of the run (${how})`, true)
}

/** One line in the service log. Secrets have already been removed from the error. */
export const logFailedRun = (log: Logger, run: FailedRun, error: string): void =>
  log.warn(
    { run_id: run.id, pipeline_id: run.pipeline_id, organization_id: run.organization_id, attempt: run.attempt },
    `run failed: ${error}`,
  )

type FailedRun = Pick<ClaimedRun, 'id' | 'pipeline_id' | 'organization_id' | 'attempt'>

/** Writes the end of the attempt. Its executor must have exited or be idle by now. */
export function writeVerdict(attempt: Attempt, verdict: Verdict): Promise<void> {
  switch (verdict.end) {
    case 'lost':
      return Promise.resolve()
    case 'cut off':
      return writeCutOff(attempt)
    case 'cancelled':
      return writeCancelled(attempt)
    case 'handed over':
      return writeHandOver(attempt)
    case 'success':
      return writeSuccess(attempt, verdict.outcome)
    case 'failure':
      return writeFailure(attempt, verdict)
  }
}

/** The row is already cancelled; only the last log line is missing. */
async function writeCancelled(attempt: Attempt): Promise<void> {
  const { run, log } = attempt
  log.write(
    'info',
    run.checkpoint > 0
      ? 'The run was stopped. Checkpoints that were already committed stay; the next run continues from there.'
      : 'The run was stopped.',
  )
  await log.flush()
}

async function writeHandOver({ services, run, log }: Attempt): Promise<void> {
  log.write('info', 'The worker is shutting down; another worker resumes from the last checkpoint.')
  const rest = await log.rest()
  await retryWhileUnavailable(() => handOver(services.db.control, run, { log: rest }))
}

/**
 * The database was unavailable for longer than a lease. That is not the run's fault, so it is handed over without
 * counting, unless another worker has taken it over: then the attempt matches no row.
 */
async function writeCutOff({ services, run, log }: Attempt): Promise<void> {
  log.write('warn', `The worker was cut off from the database; the run resumes from checkpoint ${run.checkpoint}.`)
  const rest = await log.rest()
  await retryWhileUnavailable(() => handOver(services.db.control, run, { log: rest }), CUT_OFF_MS)
}

async function writeSuccess(attempt: Attempt, outcome: Outcome): Promise<void> {
  const { services, run, pinned } = attempt
  const fingerprint = 'config' in pinned && makeFingerprint(services.box, run.organization_id, pinned.config)
  const incremental = 'config' in pinned && pinned.config.sync.mode === 'incremental' && fingerprint
  const goesOn = 'config' in pinned && findDestination(pinned.config.destination.name)?.buildOutput !== undefined
  const target = goesOn && fingerprint ? fingerprint.destination : null
  const log = await attempt.log.rest()
  await endOnce(attempt, (next) => attempt.finishSuccess(run, { outcome, incremental, target, log, next }))
}

/**
 * Writes the end, retrying while the database is unavailable. Only the first try claims a run for the freed slot: if
 * its answer were lost, the claimed runs would be unknown.
 */
function endOnce(attempt: Attempt, end: (next: NextClaim | undefined) => Promise<boolean>): Promise<boolean> {
  let next = attempt.claimNext?.()
  return retryWhileUnavailable(() => {
    const claim = next
    next = undefined
    return end(claim).catch((error: Error) => {
      claim?.lost()
      throw error
    })
  })
}

async function writeFailure(attempt: Attempt, verdict: Failure): Promise<void> {
  const { services, run, log, redact, pinned, progress: counts } = attempt
  const error = trimError(redact(`${verdict.kind}: ${verdict.message}`))
  const tries = run.failed_attempts + 1
  const options = 'config' in pinned ? pinned.config.run : {}
  const { max_attempts = 1, backoff_seconds = DEFAULT_BACKOFF_SECONDS } = options
  if (verdict.transient && tries < max_attempts) {
    const delaySeconds = backoff_seconds * 2 ** (tries - 1)
    log.write(
      'warn',
      `Attempt ${tries} of ${max_attempts} failed: ${verdict.message}. The next attempt starts in ${formatDuration(delaySeconds * 1000)}.`,
    )
    const rest = await log.rest()
    await retryWhileUnavailable(() => retryLater(services.db.control, run, { error, delaySeconds, log: rest, counts }))
    return
  }
  log.write('error', `The run failed. ${error}`)
  const rest = await log.rest()
  // The scheduler removes its parts later: a blob store that hangs must not hold the slot.
  const ended = await endOnce(attempt, (next) =>
    finishFailed(services.db.control, run, { error, log: rest, counts, discarded: isDiscarded(attempt), next }),
  )
  if (ended) logFailedRun(services.log, run, error)
}

/** A failed run leaves no output and publishes no replacement. What was appended or upserted by checkpoints stays. */
function isDiscarded({ pinned }: Attempt): boolean {
  if (!('config' in pinned)) return false
  const { destination, sync } = pinned.config
  return sync.write === 'replace' || findDestination(destination.name)?.capabilities.commits === 'output'
}
