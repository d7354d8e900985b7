/** What an execution is given, what it asks of its host, and what it returns. Plain data, because it travels between processes. */

import type { BlobStore } from '../blobs/blobs.ts'
import type {
  Authentication,
  Column,
  ColumnChoice,
  Destination,
  Fetch,
  RunLog,
  Source,
  Sync,
} from '../connectors/contract.ts'
import type { Egress } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'

/** A piece of the stage: an object in the blob store, durable, with the checkpoint that made it count. */
export interface Part {
  checkpoint: number
  key: string
  size: number
  records: number
}

export interface Counts {
  records_read: number
  records_written: number
  bytes_written: number
}

/** How far a run came. `cursor` is opaque to the host: it goes back into `resume` as it is. */
export interface Checkpoint extends Counts {
  checkpoint: number
  cursor: Json
  /** The whole list so far, in order. */
  parts: Part[]
}

interface JobSource {
  name: string
  stream: string
  authentication: Authentication
  config: Record<string, unknown>
  /** Set for a custom source: the code as it was pinned with the run. */
  custom?: { code: string; version: number } & Record<string, unknown>
}

export interface Job {
  run_id: string
  seq: number
  attempt: number
  organization_id: string
  pipeline_id: string
  source: JobSource
  destination: { name: string; config: Record<string, unknown> }
  sync: Sync
  columns: ColumnChoice
  keep_output: boolean
  /** The pipeline's saved state and the `seq` of the run (or of the edit) that saved it. */
  state: { seq: number; cursor: Json } | null
  /** The last checkpoint saved by an earlier attempt of this run. */
  resume: Checkpoint | null
  schema: Column[] | null
  /** Outputs that the source may read, by run id. */
  outputs: Record<string, { key: string; size: number }[]>
}

export interface Host {
  blobs: BlobStore
  egress: Egress
  /**
   * Requests with the authentication of the source on them, ended by the signal. Absent: a refresh token that a provider
   * replaces is stored nowhere.
   */
  authenticate?(authentication: Authentication, signal: AbortSignal): Fetch
  log: RunLog
  /** Aborted by cancel, time-out and shutdown. */
  signal: AbortSignal
  fault(point: string): Promise<void> | void
  /** Throws once a cancel was heard: no checkpoint begins after that. */
  mayBegin(): void
  /** Keeps a checkpoint, conditionally on the attempt. Throws when a newer attempt has the run. */
  saveCheckpoint(checkpoint: Checkpoint): Promise<void>
  progress(counts: Counts): void
  saveSchema(columns: Column[], changes: string[]): void
  /** Absent: the engine's own sizes (checkpoints.ts). Tests make checkpoints small with it. */
  checkpointEvery?: { bytes: number; records: number; ms: number }
  /** Makes the source of a job whose source is custom. */
  resolveSource?(source: JobSource): Promise<Source>
  /** Only for tests that bring a destination of their own; the registry answers otherwise. */
  resolveDestination?(name: string): Destination | undefined
}

export interface Output {
  parts: Part[]
  extension: string
  content_type: string
  size: number
}

export interface Outcome extends Counts {
  /** Null where the pipeline keeps no output. */
  output: Output | null
  /** The pipeline's new state; null for a full refresh, which has none. */
  cursor: Json
}
