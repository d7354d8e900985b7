/** The state of one attempt, and helpers that run its steps and attribute errors. */
import type { Packing } from '../blobs/part-writer.ts'
import { runPrefix } from '../blobs/run-keys.ts'
import type { Column, FailureKind, StageEncoding } from '../connectors/contract.ts'
import { createRedact } from '../connectors/settings/redact.ts'
import { secretValues } from '../connectors/settings/secrets.ts'
import type { Json } from '../json/json.ts'
import { asFailure, chooseEncoding, type Endpoints } from './endpoints.ts'
import type { Checkpoint, Counts, Host, Job, Part } from './job.ts'
import { outputShape } from './output.ts'
import { DEFAULT_SHARE, Quarantine } from './quarantine.ts'
import type { Start } from './resume-point.ts'
import { noStage, openStage, type Stage } from './stage.ts'

export interface Attempt {
  job: Job
  host: Host
  endpoints: Endpoints
  start: Start
  /** Aborted by the host's signal and by a failure of either loop. */
  signal: AbortSignal
  /** Stops both loops. */
  stop(error: unknown): void
  stage: Stage
  /** Null if a record that the destination refuses fails the run. */
  quarantine: Quarantine | null
  /** What was passed to the destination, refused records included. */
  counts: Counts
  /** What of it is visible in the destination, whatever happens now. */
  committed: Counts
  parts: Part[]
  /** The last checkpoint that was saved with us. Its counts are as above. */
  saved: Checkpoint
  checkpoint: number
  cursor: Json
  /** The source has no more. */
  complete: boolean
  encoding: StageEncoding
  /** The columns of the reading, once it is open. */
  columns: Column[] | null
  /** Whether this reading can resume from a cursor. */
  resumable: boolean
  /** Of the destination to the reader (contract.ts). */
  requestCheckpoint(): void
}

export function openAttempt(job: Job, host: Host, endpoints: Endpoints, start: Start): Attempt {
  const stop = new AbortController()
  const { records_read, records_written, bytes_written } = start
  const counts = { records_read, records_written, bytes_written }
  const attempt: Attempt = {
    job,
    host,
    endpoints,
    start,
    signal: AbortSignal.any([host.signal, stop.signal]),
    stop: (error) => stop.abort(error),
    stage: chooseStage(job, host, endpoints),
    quarantine: null,
    counts,
    committed: { ...counts },
    parts: [...start.parts],
    saved: { ...start.saved, ...counts },
    checkpoint: start.checkpoint,
    cursor: start.resume ?? start.state,
    complete: start.done,
    encoding: start.encoding ?? chooseEncoding(job, endpoints),
    columns: start.doubtful?.columns ?? null,
    resumable: endpoints.source.capabilities.resumable,
    requestCheckpoint() {},
  }
  if (job.sync.on_error === 'quarantine') attempt.quarantine = openQuarantine(attempt)
  return attempt
}

function openQuarantine(attempt: Attempt): Quarantine {
  const { job, host, endpoints, start } = attempt
  return new Quarantine({
    blobs: host.blobs,
    prefix: prefixOf(job),
    attempt: job.attempt,
    parts: start.quarantine,
    share: job.sync.max_error_share ?? DEFAULT_SHARE,
    // A server may repeat in its reason what it was sent.
    redact: createRedact(secretValues(endpoints.destination.settings, job.destination.config)),
    position: () => ({
      records_read: attempt.counts.records_read,
      checkpoint: attempt.checkpoint,
      complete: attempt.complete,
    }),
    save: () => saveCheckpoint(attempt, 'quarantine'),
  })
}

/** Saves the last checkpoint, with what is in the quarantine by now. */
export async function saveCheckpoint(attempt: Attempt, name: 'save' | 'quarantine'): Promise<void> {
  const { host, saved, quarantine } = attempt
  const checkpoint: Checkpoint = { ...saved, ...reportedCounts(attempt, saved) }
  if (quarantine) checkpoint.quarantine = quarantine.parts
  await step(host, name, () => host.saveCheckpoint(checkpoint))
}

/** Refused records were passed to the destination, and not written. */
export function reportedCounts({ quarantine }: Attempt, counts: Counts): Counts {
  const { records_read, records_written, bytes_written } = counts
  return { records_read, records_written: Math.max(0, records_written - (quarantine?.records ?? 0)), bytes_written }
}

/** What a failed run left: with a mark, only what was committed with it; others do not tell. */
export function remainingCounts(attempt: Attempt): Counts {
  const { endpoints, counts, committed } = attempt
  if (endpoints.destination.capabilities.commits !== 'mark') return reportedCounts(attempt, counts)
  return { ...committed, records_read: counts.records_read }
}

/** A new stage, once the encoding of the pages is known. Nothing was appended to the one before. */
export function openParquetStage(attempt: Attempt): void {
  attempt.encoding = 'parquet'
  attempt.stage = chooseStage(attempt.job, attempt.host, attempt.endpoints, 'none')
}

/** Batches are stored until the run ends, even if no output is kept: one that was lost in transit is sent again. */
function chooseStage(job: Job, host: Host, endpoints: Endpoints, packing?: Packing): Stage {
  if (!job.keep_output && endpoints.destination.capabilities.commits !== 'batch') return noStage
  const shape = outputShape(endpoints)
  return openStage({
    blobs: host.blobs,
    prefix: prefixOf(job),
    attempt: job.attempt,
    packing: packing ?? (shape.format === 'jsonl' && shape.compression === 'gzip' ? 'gzip' : 'zstd'),
  })
}

export function prefixOf(job: Job): string {
  return runPrefix({ id: job.run_id, organization_id: job.organization_id })
}

/** Runs one step of the protocol, with its fault points. */
export async function step<T>(host: Host, name: string, act: () => Promise<T>): Promise<T> {
  await host.fault(`${name}:before`)
  const result = await act()
  await host.fault(`${name}:after`)
  return result
}

/** Turns an unexpected error into a failure of the given kind; a cancel or timeout stays what it is. */
export function blame(host: Host, kind: FailureKind): (error: unknown) => never {
  return (error) => {
    if (host.signal.aborted) throw host.signal.reason
    throw asFailure(error, kind)
  }
}
