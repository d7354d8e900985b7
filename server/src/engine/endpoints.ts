/** The two connectors of a run, found, with their settings checked and defaulted, and the contexts they are called with. */
import { createFetch } from '../connectors/authentication/fetch.ts'
import {
  ConnectorError,
  type Context,
  type Destination,
  type FailureKind,
  type FenceContext,
  type Fetch,
  type LoadContext,
  type ReadContext,
  type Reading,
  type Source,
} from '../connectors/contract.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { applyDefaults, findSettingsFaults } from '../connectors/settings/settings.ts'
import { MalformedJson } from '../json/malformed.ts'
import type { Host, Job } from './job.ts'
import type { Start } from './resume-point.ts'

export interface Endpoints {
  source: Source
  destination: Destination
  sourceConfig: Record<string, unknown>
  destinationConfig: Record<string, unknown>
}

export async function findEndpoints(job: Job, host: Host): Promise<Endpoints> {
  const source = job.source.custom ? await host.resolveSource?.(job.source) : findSource(job.source.name)
  if (!source) throw new ConnectorError('config', `There is no source '${job.source.name}' any more.`)
  const destination = host.resolveDestination?.(job.destination.name) ?? findDestination(job.destination.name)
  if (!destination) throw new ConnectorError('config', `There is no destination '${job.destination.name}' any more.`)
  const faults = [
    ...findSettingsFaults(source.settings, job.source.config, 'config.source.config'),
    ...findSettingsFaults(destination.settings, job.destination.config, 'config.destination.config'),
  ]
  if (faults.length > 0) throw new ConnectorError('config', `${faults.join('; ')}.`)
  return {
    source,
    destination,
    sourceConfig: applyDefaults(source.settings, job.source.config),
    destinationConfig: applyDefaults(destination.settings, job.destination.config),
  }
}

function baseContext(job: Job, host: Host, signal: AbortSignal): Omit<Context, 'config'> {
  return {
    signal,
    egress: host.egress,
    log: host.log,
    outputs: { parts: (runId) => (Object.hasOwn(job.outputs, runId) ? job.outputs[runId]! : null), blobs: host.blobs },
    fault: (point) => host.fault(point),
  }
}

export function fenceContext(job: Job, host: Host, endpoints: Endpoints): FenceContext {
  const { pipeline_id, run_id, seq, attempt } = job
  return {
    ...baseContext(job, host, host.signal),
    config: endpoints.destinationConfig,
    pipeline_id,
    run_id,
    seq,
    attempt,
  }
}

export function readContext(
  job: Job,
  host: Host,
  signal: AbortSignal,
  endpoints: Endpoints,
  start: Start,
): ReadContext {
  const { source, destination } = endpoints
  // Columns are chosen inside JSON by the engine, so a source that can not choose must not give anything else.
  const mustGiveJson = hasColumnChoice(job) && !source.capabilities.columns
  return {
    ...baseContext(job, host, signal),
    config: endpoints.sourceConfig,
    authentication: job.source.authentication,
    fetch: fetchFor(job, host, signal),
    stream: job.source.stream,
    accepts: mustGiveJson ? ['ndjson'] : destination.capabilities.encodings,
    sync: job.sync,
    columns: job.columns,
    state: start.state,
    resume: start.resume,
  }
}

function fetchFor({ source: { authentication } }: Job, host: Host, signal: AbortSignal): Fetch {
  return host.authenticate?.(authentication, signal) ?? createFetch({ egress: host.egress, authentication, signal })
}

export function loadContext(
  job: Job,
  host: Host,
  signal: AbortSignal,
  endpoints: Endpoints,
  reading: Reading,
): LoadContext {
  const { pipeline_id, run_id, seq, attempt, sync, schema } = job
  return {
    ...baseContext(job, host, signal),
    config: endpoints.destinationConfig,
    pipeline_id,
    run_id,
    stream: job.source.stream,
    seq,
    attempt,
    sync,
    encoding: reading.encoding,
    columns: reading.columns,
    resumable: reading.resumable ?? endpoints.source.capabilities.resumable,
    schema,
    saveSchema: (columns, changes) => host.saveSchema(columns, changes),
  }
}

export function hasColumnChoice(job: Job): boolean {
  const { include, exclude, rename, hash } = job.columns
  return include !== undefined || [exclude, hash].some((names) => names?.length) || Object.keys(rename ?? {}).length > 0
}

const PASSING_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ETIMEDOUT',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])

/** An error as the engine reports it: what a connector said itself, or whose fault an unforeseen one is. */
export function asFailure(error: unknown, kind: FailureKind): ConnectorError {
  if (error instanceof ConnectorError) return error
  if (error instanceof MalformedJson) return new ConnectorError('source', error.message, { cause: error })
  const code = (error as NodeJS.ErrnoException | null)?.code ?? ''
  const message = error instanceof Error ? error.message || error.name : String(error)
  return new ConnectorError(kind, message, { cause: error, transient: PASSING_CODES.has(code) })
}
