/**
 * Supervises one attempt: hands the job to an executor, saves what it reports, enforces its limits, and
 * determines how it ended. The executor does the work; the data does not pass through here. verdict.ts writes the
 * result.
 */
import type { StoredRefreshTokens } from '../connections/refresh-tokens.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { findDestination } from '../connectors/registry.ts'
import { retryWhileUnavailable } from '../database/retry-while-unavailable.ts'
import type { Checkpoint, Outcome } from '../engine/job.ts'
import type { FromExecutor } from '../executors/messages.ts'
import type { Executor, ExecutorPool } from '../executors/pool.ts'
import { findReportFault } from '../executors/reports.ts'
import { answerTokenQuestion } from '../executors/token-answers.ts'
import { makeFingerprint } from '../pipelines/fingerprint.ts'
import { type Attempt, type AttemptOptions, type ConfiguredAttempt, isConfigured, openAttempt } from './attempt.ts'
import type { ClaimedRun } from './claim.ts'
import { saveCheckpoint, saveSchema } from './finish.ts'
import { makeJob } from './job.ts'
import { refreshTokensOf } from './refresh-tokens.ts'
import { findQuotaFault } from './storage-quota.ts'
import { explainExit, failure, outOfMemory, timedOut, type Verdict, writeVerdict } from './verdict.ts'
import type { WorkerServices } from './worker-services.ts'

export interface Supervised {
  attempt: Attempt
  /** Resolves when the attempt has ended and everything about it is written. */
  done: Promise<void>
}

const CHECK_MS = 200
/** How long a refresh token that is being exchanged may delay a stop; otherwise its replacement would be lost. */
const EXCHANGE_MS = 1500
/** Node fires longer timers at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export function superviseRun(
  services: WorkerServices,
  pool: ExecutorPool,
  run: ClaimedRun,
  options: AttemptOptions = {},
): Supervised {
  const attempt = openAttempt(services, run, options)
  const done = (
    isConfigured(attempt)
      ? runAttempt(attempt, pool)
      : writeVerdict(attempt, failure('config', problemOf(attempt), false))
  ).catch((error: Error) => {
    services.log.error({ err: error, run_id: run.id }, 'supervising a run failed')
  })
  return { attempt, done }
}

const problemOf = ({ pinned }: Attempt): string => ('problem' in pinned ? pinned.problem : '')

async function runAttempt(attempt: ConfiguredAttempt, pool: ExecutorPool): Promise<void> {
  const executor = pool.take()
  const tokens = refreshTokensOf(attempt)
  const started = Date.now()
  let reusable = false
  try {
    const stopped = attempt.stopped.then((end): Verdict => ({ end }))
    const verdict = await Promise.race([stopped, execute(attempt, executor, tokens)])
    traceAttempt(attempt, started, verdict)
    reusable = verdict.end === 'success' && verdict.reusable
    if (mayFinishExchange(verdict)) await tokens.settle(EXCHANGE_MS)
    // The executor must have stopped before anything is written about the end.
    if (!reusable) await endExecutor(executor)
    await writeVerdict(attempt, verdict)
  } finally {
    pool.give(executor, reusable)
    await tokens.close()
  }
}

/** The executor still works and was only told to stop, or ran out of time. */
const mayFinishExchange = (verdict: Verdict): boolean =>
  verdict.end === 'cancelled' ||
  verdict.end === 'handed over' ||
  (verdict.end === 'failure' && verdict.kind === 'timeout')

async function endExecutor(executor: Executor): Promise<void> {
  executor.kill()
  await executor.ended
}

/** Runs the job and resolves with its result. */
async function execute(attempt: ConfiguredAttempt, executor: Executor, tokens: StoredRefreshTokens): Promise<Verdict> {
  const job = await makeJob(attempt).catch((error: Error) => {
    if (error instanceof ConnectorError) return failure(error.kind, error.message, error.transient)
    throw error
  })
  if ('end' in job) return job
  const { services, run } = attempt
  const { promise, resolve } = Promise.withResolvers<Verdict>()
  const unlimit = limitAttempt(attempt, executor, resolve)
  // Kept while the run is running, so it has to be written before a success that follows it.
  let schemas: Promise<unknown> = Promise.resolve()
  executor.onMessage((message) => {
    const handle = () => receive(attempt, executor, tokens, message)
    const type = (message as FromExecutor | null)?.type
    const handled = type === 'success' ? schemas.then(handle) : handle()
    if (type === 'schema') schemas = Promise.allSettled([schemas, handled])
    handled.then(
      (verdict) => {
        if (verdict) resolve(verdict)
      },
      (error: Error) => {
        services.log.error({ err: error, run_id: run.id }, 'a message of an executor could not be handled')
        resolve(failure('internal', 'the worker could not handle what its executor reported', true))
      },
    )
  })
  void executor.ended.then((exit) => resolve(explainExit(exit, services.config.RUN_MEMORY_MB)))
  executor.send({ type: 'run', job })
  return promise.finally(unlimit)
}

/** Enforces the limits of time, memory and disk; returns a function that stops watching. */
function limitAttempt(
  { services: { config }, pinned }: ConfiguredAttempt,
  executor: Executor,
  end: (verdict: Verdict) => void,
): () => void {
  // The operator may have lowered the limit since the pipeline was saved.
  const minutes = Math.min(pinned.config.run.timeout_minutes ?? Number.POSITIVE_INFINITY, config.RUN_TIMEOUT_MINUTES)
  const time = setTimeout(() => end(timedOut(minutes)), Math.min(minutes * 60_000, LONGEST_TIMER_MS))
  const watch = setInterval(() => {
    const used = executor.residentMb()
    if (used > config.RUN_MEMORY_MB) end(outOfMemory(config.RUN_MEMORY_MB, used))
    const full = executor.spaceFault()
    if (full !== null) end(failure('limit', full, true))
  }, CHECK_MS)
  return () => {
    clearTimeout(time)
    clearInterval(watch)
  }
}

/** Handles a message of the executor. A returned verdict means that the attempt is over. */
async function receive(
  attempt: ConfiguredAttempt,
  executor: Executor,
  tokens: StoredRefreshTokens,
  message: FromExecutor,
): Promise<Verdict | undefined> {
  const { run, log } = attempt
  const fault = findReportFault(run, message)
  if (fault !== null) return failure('internal', `the executor sent an invalid report: ${fault}`, false)
  switch (message.type) {
    case 'ready':
      return
    case 'log':
      for (const [level, text] of message.entries) log.write(level, text)
      return
    case 'progress':
      attempt.progress = message.counts
      return
    case 'schema':
      // The destination has already logged them, with the name of the table.
      await keepSchema(attempt, message).catch((error: Error) =>
        attempt.services.log.warn({ err: error, run_id: run.id }, 'the columns of a run could not be kept'),
      )
      return
    case 'checkpoint': {
      const ended = await keepCheckpoint(attempt, message.checkpoint)
      if (!ended) executor.send({ type: 'saved', id: message.id })
      return ended
    }
    case 'refresh_begin':
    case 'refresh_end':
      executor.send(await answerTokenQuestion(tokens, message))
      return
    case 'success':
      return acceptSuccess(attempt, message.outcome, message.reusable === true)
    case 'failure':
      return failure(message.kind, message.message, message.transient)
  }
}

function keepSchema(
  { services, run, pinned }: ConfiguredAttempt,
  { columns, changes }: Extract<FromExecutor, { type: 'schema' }>,
): Promise<number> {
  // They belong to the source of the pipeline.
  const { resends, replays } = pinned.config
  if (resends !== undefined || replays !== undefined) return Promise.resolve(0)
  const fingerprint = makeFingerprint(services.box, run.organization_id, pinned.config)
  return retryWhileUnavailable(() => saveSchema(services.db.control, run, { columns, changes, fingerprint }))
}

async function keepCheckpoint({ services, run }: Attempt, checkpoint: Checkpoint): Promise<Verdict | undefined> {
  const over = await findQuotaFault(services, run, [...checkpoint.parts, ...(checkpoint.quarantine ?? [])])
  if (over) return failure('limit', over, false)
  const saved = await retryWhileUnavailable(() => saveCheckpoint(services.db.control, run, checkpoint)).catch(
    () => false,
  )
  if (!saved) return { end: 'lost' }
  run.checkpoint = checkpoint.checkpoint
  return undefined
}

async function acceptSuccess(attempt: ConfiguredAttempt, outcome: Outcome, reusable: boolean): Promise<Verdict> {
  // If the output is all there is, its last part is reported only now; otherwise every part came with a checkpoint.
  const { destination } = attempt.pinned.config
  const late = findDestination(destination.name)?.capabilities.commits === 'output'
  const parts = [...(outcome.output?.parts ?? []), ...(outcome.quarantine ?? [])]
  const over = late ? await findQuotaFault(attempt.services, attempt.run, parts) : null
  return over ? failure('limit', over, false) : { end: 'success', outcome, reusable }
}

/** All attempts of a run form one trace, identified by the run's id. */
function traceAttempt({ services, run, pinned }: ConfiguredAttempt, started: number, verdict: Verdict): void {
  services.log.debug({ run_id: run.id, ms: Date.now() - started, end: verdict.end }, 'attempt ended')
  services.traces?.add({
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
      'sluice.source': pinned.config.source.name,
      'sluice.destination': pinned.config.destination.name,
      'sluice.end': verdict.end,
      ...(verdict.end === 'failure' && { 'error.type': verdict.kind }),
    },
  })
}
