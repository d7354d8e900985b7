/** The contexts that the two connectors of a run are called with. */
import { createFetch } from '../connectors/authentication/fetch.ts'
import type { Context, FenceContext, Fetch, LoadContext, ReadContext } from '../connectors/contract.ts'
import type { Attempt } from './attempt.ts'
import type { Endpoints } from './endpoints.ts'
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
    encoding,
    sync: job.sync,
    columns: job.columns,
    state: start.state,
    resume: start.resume,
  }
}

function fetchFor({ source: { authentication } }: Job, host: Host, signal: AbortSignal): Fetch {
  return host.authenticate?.(authentication, signal) ?? createFetch({ egress: host.egress, authentication, signal })
}

export function loadContext(attempt: Attempt): LoadContext {
  const { job, host, endpoints, signal, start, encoding, columns, resumable } = attempt
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
    encoding,
    columns,
    resumable,
    schema,
    saveSchema: (kept, changes) => host.saveSchema(kept, changes),
    requestCheckpoint: () => attempt.requestCheckpoint(),
    ...(host.holdBytes === undefined ? {} : { holdBytes: host.holdBytes }),
  }
}
