/** The source and destination of a run, with their settings checked and defaults applied. */
import {
  ConnectorError,
  type Destination,
  type Encoding,
  type FailureKind,
  type Source,
} from '../connectors/contract.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { applyDefaults, findSettingsFaults } from '../connectors/settings/settings.ts'
import { MalformedJson } from '../json/malformed.ts'
import type { Host, Job } from './job.ts'
import { createQuarantineSource } from './quarantine-source.ts'

export interface Endpoints {
  source: Source
  destination: Destination
  sourceConfig: Record<string, unknown>
  destinationConfig: Record<string, unknown>
}

type Chooser = Pick<Job, 'columns'>

export async function findEndpoints(job: Job, host: Host): Promise<Endpoints> {
  const source = await openSource(job, host)
  if (!source) throw new ConnectorError('config', `The source '${job.source.name}' no longer exists.`)
  const destination = host.resolveDestination?.(job.destination.name) ?? findDestination(job.destination.name)
  if (!destination) throw new ConnectorError('config', `The destination '${job.destination.name}' no longer exists.`)
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

async function openSource(job: Job, host: Host): Promise<Source | undefined> {
  if (job.resends) return createQuarantineSource(host.blobs, job.resends)
  return job.source.custom ? await host.resolveSource?.(job.source) : findSource(job.source.name)
}

/** The first encoding that the destination accepts and the source supports. */
export function chooseEncoding(
  job: Chooser,
  { source, destination }: Pick<Endpoints, 'source' | 'destination'>,
): Encoding {
  const given = engineChooses(job, source) ? ['ndjson'] : source.capabilities.encodings
  const encoding = destination.capabilities.encodings.find((candidate) => given.includes(candidate))
  if (encoding !== undefined) return encoding
  throw new ConnectorError(
    'config',
    `${source.display_name} produces ${given.join(', ')}, but ${destination.display_name} accepts ${destination.capabilities.encodings.join(', ')}.`,
  )
}

/**
 * Whether rows may travel in a form that only the destination can read: nothing of them is kept, and none is ever sent
 * again from what we stored.
 */
export function allowsNative(job: Job, { source, destination }: Endpoints): boolean {
  const { native } = source.capabilities
  if (native === undefined || native !== destination.capabilities.native) return false
  // A row that is refused goes into the quarantine as JSON.
  if (job.keep_output || job.sync.on_error === 'quarantine') return false
  return destination.capabilities.commits === 'mark' && !engineChooses(job, source)
}

/** Whether the engine selects columns, in JSON lines, because the source does not do it itself. */
export function engineChooses(job: Chooser, source: Source): boolean {
  return hasColumnChoice(job) && !source.capabilities.columns
}

function hasColumnChoice(job: Chooser): boolean {
  const { include, exclude, rename, hash } = job.columns
  return include !== undefined || [exclude, hash].some((names) => names?.length) || Object.keys(rename ?? {}).length > 0
}

const TRANSIENT_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ETIMEDOUT',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])

/** An error as the engine reports it: the connector's own, or an unexpected one attributed to `kind`. */
export function asFailure(error: unknown, kind: FailureKind): ConnectorError {
  if (error instanceof ConnectorError) return error
  if (error instanceof MalformedJson) return new ConnectorError('source', error.message, { cause: error })
  const code = (error as NodeJS.ErrnoException | null)?.code ?? ''
  const message = error instanceof Error ? error.message || error.name : String(error)
  return new ConnectorError(kind, message, { cause: error, transient: TRANSIENT_CODES.has(code) })
}
