/** The state of one attempt, and helpers that run its steps and attribute errors. */
import { runPrefix } from '../blobs/run-keys.ts'
import type { Column, Encoding, FailureKind } from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import { asFailure, chooseEncoding, type Endpoints } from './endpoints.ts'
import type { Counts, Host, Job, Part } from './job.ts'
import { outputShape } from './output.ts'
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
  counts: Counts
  parts: Part[]
  checkpoint: number
  cursor: Json
  encoding: Encoding
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
  return {
    job,
    host,
    endpoints,
    start,
    signal: AbortSignal.any([host.signal, stop.signal]),
    stop: (error) => stop.abort(error),
    stage: chooseStage(job, host, endpoints),
    counts: { records_read, records_written, bytes_written },
    parts: [...start.parts],
    checkpoint: start.checkpoint,
    cursor: start.resume ?? start.state,
    encoding: start.encoding ?? chooseEncoding(job, endpoints),
    columns: start.doubtful?.columns ?? null,
    resumable: endpoints.source.capabilities.resumable,
    requestCheckpoint() {},
  }
}

/** Batches are stored until the run ends, even if no output is kept: one that was lost in transit is sent again. */
function chooseStage(job: Job, host: Host, endpoints: Endpoints): Stage {
  if (!job.keep_output && endpoints.destination.capabilities.commits !== 'batch') return noStage
  const shape = outputShape(endpoints)
  return openStage({
    blobs: host.blobs,
    prefix: prefixOf(job),
    attempt: job.attempt,
    packing: shape.format === 'jsonl' && shape.compression === 'gzip' ? 'gzip' : 'zstd',
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
