/** The contexts that the two connectors of a run are called with. */
import { createFetch } from '../connectors/authentication/fetch.ts'
import type {
  Context,
  Encoding,
  FenceContext,
  Fetch,
  LoadContext,
  OutputContext,
  ReadContext,
  Reading,
  StageEncoding,
} from '../connectors/contract.ts'
import type { Attempt } from './attempt.ts'
import { allowsNative, type Endpoints, engineChooses } from './endpoints.ts'
import type { Host, Job } from './job.ts'

function baseContext(job: Job, host: Host, signal: AbortSignal): Omit<Context, 'config'> {
  return {
    signal,
    egress: host.egress,
    log: host.log,
    outputs: {
      parts: (runId) => findByRun(job.outputs, runId),
      columns: (runId) => findByRun(job.output_columns ?? {}, runId),
      blobs: host.blobs,
    },
    fault: (point) => host.fault(point),
  }
}

function findByRun<T>(found: Record<string, T>, runId: string): T | null {
  const id = runId.toLowerCase()
  return Object.hasOwn(found, id) ? found[id]! : null
}

export function fenceContext(job: Job, host: Host, endpoints: Endpoints): FenceContext {
  const { pipeline_id, run_id, seq, attempt, token, installation } = job
  return {
    ...baseContext(job, host, host.signal),
    config: endpoints.destinationConfig,
    pipeline_id,
    run_id,
    seq,
    attempt,
    token,
    installation,
  }
}

export function readContext({ job, host, endpoints, signal, encoding, start }: Attempt): ReadContext {
  return {
    ...baseContext(job, host, signal),
    config: endpoints.sourceConfig,
    authentication: job.source.authentication,
    fetch: fetchFor(job, host, signal),
    stream: job.source.stream,
    encoding: pageEncoding(encoding),
    native: encoding === 'tsv' && allowsNative(job, endpoints),
    sync: job.sync,
    columns: job.columns,
    tables: takesTables(job, endpoints),
    survey: endpoints.destination.surveys?.(endpoints.destinationConfig) ?? false,
    state: start.state,
    resume: start.resume,
    ...(job.range && { range: job.range }),
  }
}

/** Columns are chosen, and records refused, one by one. */
function takesTables(job: Job, { source, destination, destinationConfig }: Endpoints): boolean {
  if (engineChooses(job, source) || job.sync.on_error === 'quarantine') return false
  return destination.tables?.(destinationConfig) ?? false
}

/** A table has none, and one that was converted is never read again. */
const pageEncoding = (encoding: StageEncoding): Encoding => (encoding === 'parquet' ? 'ndjson' : encoding)

function fetchFor({ source: { authentication } }: Job, host: Host, signal: AbortSignal): Fetch {
  return host.authenticate?.(authentication, signal) ?? createFetch({ egress: host.egress, authentication, signal })
}

export function loadContext(attempt: Attempt, reading: Reading): LoadContext {
  const { job, host, endpoints, signal, start, encoding, columns, resumable, quarantine } = attempt
  const { pipeline_id, run_id, seq, sync, schema } = job
  return {
    ...baseContext(job, host, signal),
    config: endpoints.destinationConfig,
    pipeline_id,
    run_id,
    stream: job.source.stream,
    seq,
    attempt: job.attempt,
    token: job.token,
    installation: job.installation,
    reading: start.reading,
    checkpoint: start.checkpoint,
    sync,
    encoding: pageEncoding(encoding),
    table: encoding === 'parquet',
    columns,
    native: reading.native !== undefined,
    resumable,
    schema,
    saveSchema: (kept, changes) => host.saveSchema(kept, changes),
    requestCheckpoint: () => attempt.requestCheckpoint(),
    ...(host.holdBytes === undefined ? {} : { holdBytes: host.holdBytes }),
    ...(quarantine && { refused: quarantine }),
  }
}

type OutputFiles = 'folder' | 'previous' | 'readRecords'

export function outputContext({ job, host, endpoints, columns }: Attempt): Omit<OutputContext, OutputFiles> {
  return {
    ...baseContext(job, host, host.signal),
    config: endpoints.destinationConfig,
    stream: job.source.stream,
    sync: job.sync,
    columns,
    saveSchema: (kept, changes) => host.saveSchema(kept, changes),
  }
}
