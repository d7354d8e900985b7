/**
 * What a service process and its executors tell each other: plain data, for it travels as JSON. Configurations travel here
 * alone, never by argument or environment, and an executor is told what it needs and no more.
 *
 * An executor serves runs, one after another, for a worker; or calls that somebody waits for, one after another, for the
 * API. A new kind of call is one entry in `CallInputs`, one in the answers (answers.ts) and one in the table of what is
 * done (call-host.ts).
 */

import type { BlobSettings } from '../blobs/open.ts'
import type { CellSettings } from '../cell/settings.ts'
import type { Authentication, Column, FailureKind } from '../connectors/contract.ts'
import type { Listener } from '../egress/guard.ts'
import type { Checkpoint, Counts, Job, Outcome } from '../engine/job.ts'
import type { Json } from '../json/json.ts'

export interface EgressSettings {
  allow: readonly string[]
  self: readonly Listener[]
}

export interface RunSettings {
  serves: 'runs'
  blobs: BlobSettings
  egress: EgressSettings
  cell: CellSettings
  checkpointMs: number
}

/** No blob store, and no egress either: both come with the call that needs them. */
export interface CallSettings {
  serves: 'calls'
  cell: CellSettings
}

export type ExecutorSettings = RunSettings | CallSettings

/** One side of a config, whole. */
export type ProbedEndpoint =
  | {
      type: 'source'
      name: string
      authentication: Authentication
      config: Record<string, Json>
      /** Set for a custom source. */
      custom: { code: string; streams: readonly string[] } | null
    }
  | { type: 'destination'; name: string; config: Record<string, Json> }

/** Outputs of earlier runs that a source names, with the way to the blobs. Handed over only where a source reads them. */
export interface ReadableOutputs {
  /** By run id. */
  parts: Record<string, { key: string; size: number }[]>
  blobs: BlobSettings
}

export interface ProbeInput {
  endpoint: ProbedEndpoint
  outputs: ReadableOutputs | null
}

interface PreviewCallInput {
  code: string
  stream: string
  source_name: string | null
  max_records: number
  /** Off for code that was validated when it was saved. */
  validate: boolean
  authentication: Authentication | null
  config: Record<string, Json> | null
}

export interface CallInputs {
  /** Does the sandbox hold on this machine? */
  self_test: null
  check: ProbeInput
  streams: ProbeInput
  /** All streams, and what they look like: the one that is named, else the first of them. */
  describe: ProbeInput & { stream: string | null }
  preview: PreviewCallInput
  validate: { code: string; source_name: string | null }
}

export type CallKind = keyof CallInputs
export interface Call<K extends CallKind = CallKind> {
  kind: K
  input: CallInputs[K]
}

export type ToExecutor =
  | { type: 'settings'; settings: ExecutorSettings }
  | { type: 'run'; job: Job }
  | { type: 'saved'; id: number }
  | { type: 'refused'; id: number; message: string }
  /** Answers both messages about a refresh token with the one that counts from now on. */
  | { type: 'refresh_token'; id: number; token: string }
  /** `keeps_tokens`: the service stores a refresh token that the provider replaces; else it is forgotten with the call. */
  | { type: 'call'; call: Call; egress: EgressSettings; deadline_ms: number; keeps_tokens: boolean }

export type TokenQuestion =
  /** Before a refresh token is exchanged: answered when its turn has come. */
  | { type: 'refresh_begin'; id: number; held: string }
  /** After it was exchanged, with its replacement if there is one: answered when that is stored. */
  | { type: 'refresh_end'; id: number; used: string; rotated: string | null }

/** What the executor of a run says. */
export type FromExecutor =
  | { type: 'ready' }
  | { type: 'log'; entries: [level: 'debug' | 'info' | 'warn' | 'error', message: string][] }
  | { type: 'checkpoint'; id: number; checkpoint: Checkpoint }
  | { type: 'progress'; counts: Counts }
  | { type: 'schema'; columns: Column[]; changes: string[] }
  | TokenQuestion
  | { type: 'success'; outcome: Outcome; reusable: boolean }
  | { type: 'failure'; kind: FailureKind; message: string; transient: boolean }

/** What the executor of a call says: `begun`, perhaps questions, then an end. An answer may have a body, which nobody parses. */
export type FromCall =
  | { type: 'ready' }
  | { type: 'begun' }
  | TokenQuestion
  | { type: 'answer'; answer: unknown; reusable: boolean }
  | { type: 'failure'; kind: FailureKind; message: string; reusable: boolean }

/** What runs inside an executor, of either kind. */
export interface Served {
  receive(message: ToExecutor): void
  /** Loads ahead, in the pause after the start, what the first call would have to wait for. */
  preload(): Promise<void>
}
