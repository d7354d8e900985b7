/**
 * One attempt of a run on this worker: what it was given, what it has reported so far, and the means to stop it. Everybody
 * who takes part in the attempt (the executor's messages, the leases, the writing of its end) gets this one object.
 */
import { secretsOf } from '../connections/resolve.ts'
import { createRedact, type Redact } from '../connectors/settings/redact.ts'
import { SecretLost } from '../database/secret-box.ts'
import type { Counts } from '../engine/job.ts'
import type { ResolvedConfig } from '../pipelines/resolve.ts'
import type { ClaimedRun } from './claim.ts'
import { createRunLogWriter, type RunLogWriter } from './log.ts'
import { type PinnedConfig, runPlace } from './trigger.ts'
import type { WorkerServices } from './worker-services.ts'

/** Reasons from outside. `lost` means that the run is no longer ours and nothing more may be written. */
export type StopReason = 'cancelled' | 'lost' | 'handed over'

export interface Attempt {
  readonly services: WorkerServices
  readonly run: ClaimedRun
  /** The configuration that was pinned with the run, or why there is none to use. */
  readonly pinned: PinnedConfig
  readonly log: RunLogWriter
  readonly redact: Redact
  /** What was moved since the run's counts were last written. */
  progress: Counts | null
  /** Ends the attempt from outside; the first reason counts. */
  stop(reason: StopReason): void
  readonly stopped: Promise<StopReason>
}

export function openAttempt(services: WorkerServices, run: ClaimedRun): Attempt {
  const { promise, resolve } = Promise.withResolvers<StopReason>()
  const { pinned, redact } = openConfig(services, run)
  return {
    services,
    run,
    pinned,
    redact,
    log: createRunLogWriter(services.db, run, redact),
    progress: null,
    stop: resolve,
    stopped: promise,
  }
}

/** An attempt whose configuration could be opened. */
export type ConfiguredAttempt = Attempt & { pinned: { config: ResolvedConfig } }

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
