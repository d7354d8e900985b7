/**
 * The messages between a service process and its executors: plain data, because they travel as JSON. Configurations
 * only travel here, never as arguments or environment, and an executor receives only what it needs.
 *
 * An executor serves either runs, one after another, for a worker; or interactive calls, one after another, for the
 * API. A new kind of call is one entry in `CallInputs`, one in the answers (answers.ts) and one in the performers
 * (call-host.ts).
 */

import type { BlobSettings } from '../blobs/open.ts'
import type { StoredPart } from '../blobs/parts.ts'
import type { CellSettings } from '../cell/settings.ts'
import type { KeptToken, SettingPath } from '../connectors/authentication/refresh-tokens.ts'
import type { Authentication, Column, ColumnChoice, FailureKind, Sync } from '../connectors/contract.ts'
import type { Listener } from '../egress/guard.ts'
import type { Checkpoint, Counts, Job, Outcome } from '../engine/job.ts'
import type { QueriedOutput } from '../engine/query/output-table.ts'
import type { ResultFormat } from '../engine/query/result.ts'
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

/** Neither a blob store nor egress: both come with the call that needs them. */
export interface CallSettings {
  serves: 'calls'
  cell: CellSettings
}

export type ExecutorSettings = RunSettings | CallSettings

/** What the code of a custom source is written in. */
export type SourceLanguage = 'python' | 'manifest'

/** One side of a config, complete. */
export type ProbedEndpoint =
  | {
      type: 'source'
      name: string
      authentication: Authentication
      config: Record<string, Json>
      /** Set for a custom source. */
      custom: { code: string; streams: readonly string[]; language: SourceLanguage } | null
    }
  | { type: 'destination'; name: string; config: Record<string, Json> }

/** Outputs of earlier runs that a source names, with blob store access. Only handed over if a source reads them. */
export interface ReadableOutputs {
  /** By run id. */
  parts: Record<string, StoredPart[]>
  /** Of those that are tab-separated text. */
  columns: Record<string, Column[]>
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
  /** False for code that was validated when it was saved. */
  validate: boolean
  authentication: Authentication | null
  config: Record<string, Json> | null
}

type SourceEndpoint = Extract<ProbedEndpoint, { type: 'source' }>
type DestinationEndpoint = Extract<ProbedEndpoint, { type: 'destination' }>

/** A whole pipeline, of which nothing is loaded. */
interface PipelinePreviewInput {
  source: SourceEndpoint
  destination: DestinationEndpoint
  outputs: ReadableOutputs | null
  stream: string
  sync: Sync
  columns: ColumnChoice
  max_records: number
}

/** SQL over the output of one run; without it, the first rows. */
interface QueryCallInput {
  output: QueriedOutput
  blobs: BlobSettings
  sql: string | null
  format: ResultFormat
  limit: number
  memory_mb: number
}

export interface CallInputs {
  /** Whether the sandbox works on this machine. */
  self_test: null
  /** With a stream: that one too. */
  check: ProbeInput & { stream: string | null }
  streams: ProbeInput
  /** Lists all streams and describes the named ones, or the first. */
  describe: ProbeInput & { wanted: string[] | null }
  preview: PreviewCallInput
  validate: { code: string; source_name: string | null }
  /** What a manifest gives, without settings. */
  validate_manifest: { manifest: string }
  query: QueryCallInput
  pipeline_preview: PipelinePreviewInput
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
  /** Answers both messages about a refresh token with the token to use from now on. */
  | { type: 'refresh_token'; id: number; token: string }
  /** `keeps_tokens`: the service stores a rotated refresh token; otherwise it is lost with the call. */
  | { type: 'call'; call: Call; egress: EgressSettings; deadline_ms: number; keeps_tokens: boolean }

export type TokenQuestion =
  /** Before a refresh token is exchanged: answered when it is this executor's turn. */
  | { type: 'refresh_begin'; id: number; held: string; path?: SettingPath }
  /** After the exchange, with the replacement if there is one: answered when that is stored. */
  | { type: 'refresh_end'; id: number; used: string; rotated: string | null; kept?: KeptToken }

/** Messages from the executor of a run. */
export type FromExecutor =
  | { type: 'ready' }
  | { type: 'log'; entries: [level: 'debug' | 'info' | 'warn' | 'error', message: string][] }
  | { type: 'checkpoint'; id: number; checkpoint: Checkpoint }
  | { type: 'progress'; counts: Counts }
  | { type: 'schema'; columns: Column[]; changes: string[] }
  | TokenQuestion
  | { type: 'success'; outcome: Outcome; reusable: boolean }
  | { type: 'failure'; kind: FailureKind; message: string; transient: boolean }

/**
 * Messages from the executor of a call: `begun`, perhaps questions, then a result. An answer may have a body, which is
 * passed on unparsed.
 */
export type FromCall =
  | { type: 'ready' }
  | { type: 'begun' }
  | TokenQuestion
  | { type: 'answer'; answer: unknown; reusable: boolean }
  | { type: 'failure'; kind: FailureKind; message: string; reusable: boolean }

/** What runs inside an executor of either kind. */
export interface Served {
  receive(message: ToExecutor): void
  /** Loads what the first call would otherwise wait for, while idle after the start. */
  preload(): Promise<void>
}
