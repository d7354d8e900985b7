/** What a worker and its executor tell each other. The configuration travels here alone: never by argument or environment. */

import type { BlobSettings } from '../blobs/open.ts'
import type { CellSettings } from '../cell/settings.ts'
import type { Column, FailureKind } from '../connectors/contract.ts'
import type { Listener } from '../egress/guard.ts'
import type { Checkpoint, Counts, Job, Outcome } from '../engine/job.ts'

export interface ExecutorSettings {
  blobs: BlobSettings
  egress: { allow: readonly string[]; self: readonly Listener[] }
  cell: CellSettings
  checkpointMs: number
}

export type ToExecutor =
  | { type: 'settings'; settings: ExecutorSettings }
  | { type: 'run'; job: Job }
  | { type: 'saved'; id: number }
  | { type: 'refused'; id: number; message: string }
  /** Answers both messages about a refresh token with the one that counts from now on. */
  | { type: 'refresh_token'; id: number; token: string }

export type FromExecutor =
  | { type: 'ready' }
  | { type: 'log'; entries: [level: 'debug' | 'info' | 'warn' | 'error', message: string][] }
  | { type: 'checkpoint'; id: number; checkpoint: Checkpoint }
  | { type: 'progress'; counts: Counts }
  | { type: 'schema'; columns: Column[]; changes: string[] }
  /** Before a refresh token is exchanged: answered when its turn has come. */
  | { type: 'refresh_begin'; id: number; held: string }
  /** After it was exchanged, with its replacement if there is one: answered when that is stored. */
  | { type: 'refresh_end'; id: number; used: string; rotated: string | null }
  | { type: 'success'; outcome: Outcome; reusable: boolean }
  | { type: 'failure'; kind: FailureKind; message: string; transient: boolean }
