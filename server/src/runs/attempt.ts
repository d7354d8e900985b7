/**
 * One attempt of a run on this worker: its input, what it has reported so far, and how to stop it. All parts of the
 * worker that deal with the attempt (messages from the executor, leases, writing its end) share this object.
 */
import { secretsOf } from '../connections/resolve.ts'
import { createRedact, type Redact } from '../connectors/settings/redact.ts'
import { SecretLost } from '../database/secret-box.ts'
import type { Counts } from '../engine/job.ts'
import type { ClaimedRun } from './claim.ts'
import type { NextClaim } from './finish.ts'
import { createRunLogWriter, type RunLogWriter } from './log.ts'
import { type Moment, takeMoment } from './moment.ts'
import type { PinnedConfig, UsableConfig } from './pinned-config.ts'
import { type FinishSuccess, finishSuccess } from './success.ts'
import { runPlace } from './trigger.ts'
import type { WorkerServices } from './worker-services.ts'

/**
 * External reasons. `lost`: the run is no longer ours and nothing more may be written. `cut off`: the lease could not
 * be renewed in time, and the owner of the run is unknown until the database answers again.
 */
export type StopReason = 'cancelled' | 'lost' | 'handed over' | 'cut off'

/** Undefined if nothing should be claimed, as when the worker is stopping. */
type ClaimNext = () => NextClaim | undefined

export interface Attempt {
  readonly services: WorkerServices
  readonly run: ClaimedRun
  /** The configuration pinned with the run, or why there is none. */
  readonly pinned: PinnedConfig
  readonly log: RunLogWriter
  readonly redact: Redact
  /** What was transferred since the run's counts were last written. */
  progress: Counts | null
  /** When the request that last gave us the lease was sent. */
  leasedAt: Moment
  /** Writes a success, together with those of other attempts of this worker. */
  readonly finishSuccess: FinishSuccess
  /** Set while the worker wants more work: claims a run for the slot that this attempt frees. */
  readonly claimNext: ClaimNext | undefined
  /** Stops the attempt from outside; the first reason counts. */
  stop(reason: StopReason): void
  readonly stopped: Promise<StopReason>
}

export interface AttemptOptions {
  leasedAt?: Moment
  claimNext?: ClaimNext
  finishSuccess?: FinishSuccess
}

export function openAttempt(services: WorkerServices, run: ClaimedRun, options: AttemptOptions = {}): Attempt {
  const { promise, resolve } = Promise.withResolvers<StopReason>()
  const { pinned, redact } = openConfig(services, run)
  return {
    services,
    run,
    pinned,
    redact,
    log: createRunLogWriter(services.db, run, { redact, maxBytes: services.config.RUN_LOG_MB * 1e6 }),
    progress: null,
    leasedAt: options.leasedAt ?? takeMoment(),
    finishSuccess: options.finishSuccess ?? ((run, ending) => finishSuccess(services.db.control, run, ending)),
    claimNext: options.claimNext,
    stop: resolve,
    stopped: promise,
  }
}

/** An attempt whose configuration could be decrypted. */
export type ConfiguredAttempt = Attempt & { pinned: { config: UsableConfig } }

export const isConfigured = (attempt: Attempt): attempt is ConfiguredAttempt => 'config' in attempt.pinned

/** Whatever is wrong with it fails this run alone: thrown, it would give back all that was claimed with it, again and again. */
function openConfig({ box, log }: WorkerServices, run: ClaimedRun): { pinned: PinnedConfig; redact: Redact } {
  try {
    const pinned = box.open<PinnedConfig>(runPlace(run.organization_id, run.id), run.config_box)
    return { pinned, redact: createRedact('config' in pinned ? secretsOf(pinned.config) : []) }
  } catch (error) {
    const isLost = error instanceof SecretLost
    if (!isLost) log.error({ err: error, run_id: run.id }, 'the configuration of a run cannot be read')
    const problem = isLost ? `be decrypted. ${error.message}.` : 'be read; trigger the pipeline again.'
    return { pinned: { problem: `The configuration of this run cannot ${problem}` }, redact: (text) => text }
  }
}
