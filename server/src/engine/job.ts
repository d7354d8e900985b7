/**
 * The input of an execution, what it asks of its host, and its result. Plain data, because it travels between
 * processes.
 */

import type { BlobStore } from '../blobs/blobs.ts'
import type { StoredPart } from '../blobs/parts.ts'
import type {
  Authentication,
  Column,
  ColumnChoice,
  Destination,
  Fetch,
  ReadRange,
  RunLog,
  Source,
  Sync,
} from '../connectors/contract.ts'
import type { Egress } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'
import type { Fingerprint } from './fingerprint.ts'

/** A piece of the stage: a durable object in the blob store, with the checkpoint that lists it. */
export interface Part extends StoredPart {
  checkpoint: number
  records: number
}

export interface Counts {
  records_read: number
  records_written: number
  bytes_written: number
}

/** What a later attempt needs of a checkpoint. `cursor` is opaque to the host, and comes back unchanged. */
interface Resume {
  checkpoint: number
  cursor: Json
  /** The complete list so far, in order. */
  parts: Part[]
  /** The same of the quarantine. Absent: there is none. */
  quarantine?: Part[]
}

/** The progress of a run. */
export interface Checkpoint extends Resume, Counts {}

interface JobSource {
  name: string
  stream: string
  authentication: Authentication
  config: Record<string, unknown>
  /** Only for a custom source: its code in the version that the run was triggered with. */
  custom?: { code: string; version: number } & Record<string, unknown>
}

export interface Job {
  run_id: string
  seq: number
  attempt: number
  /** Random, for this attempt only. */
  token: string
  installation: string
  organization_id: string
  pipeline_id: string
  source: JobSource
  destination: { name: string; config: Record<string, unknown> }
  sync: Sync
  columns: ColumnChoice
  keep_output: boolean
  /** What the cursors of this run belong to. */
  fingerprint: Fingerprint
  /** The pipeline's saved state, the `seq` of the run (or of the edit) that saved it, and what it belongs to, where known. */
  state: { seq: number; cursor: Json; fingerprint: Fingerprint | null } | null
  /** The last checkpoint saved by an earlier attempt of this run. */
  resume: Resume | null
  /** Kept under this same fingerprint. */
  schema: Column[] | null
  /** Outputs that the source may read, by run id. */
  outputs: Record<string, StoredPart[]>
  /** Of a back-fill: what is read. It has no state, and leaves none. */
  range?: ReadRange
  /** The parts of the quarantine that is read instead of the source. */
  resends?: StoredPart[]
  /** The source is the output of an earlier run of the pipeline. Absent: it is not. */
  replays?: boolean
  /** The columns of those that are tab-separated text. */
  output_columns?: Record<string, Column[]>
  /**
   * The output of the pipeline's last successful run, for a destination that goes on from it. Its parts are null if they
   * were removed. Absent or null: the run starts with an empty file.
   */
  previous?: { run_id: string; parts: StoredPart[] | null } | null
}

export interface Host {
  blobs: BlobStore
  egress: Egress
  /**
   * Requests with the source's authentication applied, aborted by the signal. If absent, a rotated refresh token is not
   * stored.
   */
  authenticate?(authentication: Authentication, signal: AbortSignal): Fetch
  log: RunLog
  /** Aborted by cancel, timeout and shutdown. */
  signal: AbortSignal
  fault(point: string): Promise<void> | void
  /** Throws once a cancel was received: no checkpoint begins after that. */
  mayBegin(): void
  /** Saves a checkpoint, conditionally on the attempt. Throws if a newer attempt owns the run. */
  saveCheckpoint(checkpoint: Checkpoint): Promise<void>
  progress(counts: Counts): void
  saveSchema(columns: Column[], changes: string[]): void
  /** If absent, the engine's own sizes apply (checkpoints.ts). Tests use it to make checkpoints small. */
  checkpointEvery?: { bytes: number; records: number; ms: number }
  /** If absent, the destination's own limit applies. Tests use it to make the destination spill at once. */
  holdBytes?: number
  /** Creates the source of a job whose source is custom. */
  resolveSource?(source: JobSource): Promise<Source>
  /** Only for tests that bring their own destination; by default the registry is used. */
  resolveDestination?(name: string): Destination | undefined
}

export interface Output {
  parts: Part[]
  extension: string
  content_type: string
  /** Of tab-separated text, which does not say what its columns are. */
  columns?: Column[]
  size: number
}

export interface Outcome extends Counts {
  /** Null if the pipeline keeps no output, or if what earlier attempts staged is lost. */
  output: Output | null
  /** The pipeline's new state; null for a full refresh, which has none. */
  cursor: Json
  /** Records that the destination refused. Absent: none. */
  quarantine?: Part[]
}
