/** The two connectors of a run, found, with their settings checked and defaulted. */
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

/** The first that the destination accepts and the source can give. */
export function chooseEncoding(job: Job, { source, destination }: Endpoints): Encoding {
  const given = engineChooses(job, source) ? ['ndjson'] : source.capabilities.encodings
  const encoding = destination.capabilities.encodings.find((candidate) => given.includes(candidate))
  if (encoding !== undefined) return encoding
  throw new ConnectorError(
    'config',
    `${source.display_name} gives ${given.join(', ')}, and ${destination.display_name} accepts ${destination.capabilities.encodings.join(', ')}.`,
  )
}

/** Columns are chosen by the engine, inside of JSON lines, where the source does not do it itself. */
export function engineChooses(job: Job, source: Source): boolean {
  return hasColumnChoice(job) && !source.capabilities.columns
}

function hasColumnChoice(job: Job): boolean {
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
