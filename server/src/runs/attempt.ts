/**
 * One attempt of a run on this worker: what it was given, what it has reported so far, and the means to stop it. Everybody
 * who takes part in the attempt (the executor's messages, the leases, the writing of its end) gets this one object.
 */
import { secretsOf } from '../connections/resolve.ts'
import { createRedact, type Redact } from '../connectors/settings/redact.ts'
import { SecretLost } from '../database/secret-box.ts'
import type { Counts } from '../engine/job.ts'
import type { ClaimedRun } from './claim.ts'
import type { NextClaim } from './finish.ts'
import { createRunLogWriter, type RunLogWriter } from './log.ts'
import { type Moment, takeMoment } from './moment.ts'
import { type PinnedConfig, runPlace, type UsableConfig } from './trigger.ts'
import type { WorkerServices } from './worker-services.ts'

/**
 * Reasons from outside. `lost`: the run is no longer ours and nothing more may be written. `cut off`: the lease could not
 * be renewed in time, and nobody knows whose the run is until the database answers again.
 */
export type StopReason = 'cancelled' | 'lost' | 'handed over' | 'cut off'

/** Undefined where nothing is to be claimed, as at the end of the worker. */
type ClaimNext = () => NextClaim | undefined

export interface Attempt {
  readonly services: WorkerServices
  readonly run: ClaimedRun
  /** The configuration that was pinned with the run, or why there is none to use. */
  readonly pinned: PinnedConfig
  readonly log: RunLogWriter
  readonly redact: Redact
  /** What was moved since the run's counts were last written. */
  progress: Counts | null
  /** When the request was sent that last gave us the lease. */
  leasedAt: Moment
  /** Given while the worker wants more: what is claimed for the slot that this attempt leaves. */
  readonly claimNext: ClaimNext | undefined
  /** Ends the attempt from outside; the first reason counts. */
  stop(reason: StopReason): void
  readonly stopped: Promise<StopReason>
}

export interface AttemptOptions {
  leasedAt?: Moment
  claimNext?: ClaimNext
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
    claimNext: options.claimNext,
    stop: resolve,
    stopped: promise,
  }
}

/** An attempt whose configuration could be opened. */
export type ConfiguredAttempt = Attempt & { pinned: { config: UsableConfig } }

export const isConfigured = (attempt: Attempt): attempt is ConfiguredAttempt => 'config' in attempt.pinned

function openConfig({ box }: WorkerServices, run: ClaimedRun): { pinned: PinnedConfig; redact: Redact } {
  try {
    const pinned = box.open<PinnedConfig>(runPlace(run.organization_id, run.id), run.config_box)
    return { pinned, redact: createRedact('config' in pinned ? secretsOf(pinned.config) : []) }
  } catch (error) {
    if (!(error instanceof SecretLost)) throw error
    return {
      pinned: { problem: `The configuration of this run cannot be opened. ${error.message}.` },
      redact: (text) => text,
    }
  }
}
