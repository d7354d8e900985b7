/**
 * Trying out a connector while somebody waits: does it connect, and which streams has it. What is wrong with the input is
 * refused; a system that does not answer or says no is an answer.
 */

import type { BlobStore } from '../blobs/blobs.ts'
import type { Zygote } from '../cell/zygote.ts'
import { createFetch } from '../connectors/authentication/fetch.ts'
import { ConnectorError, type Context, type OutputReader } from '../connectors/contract.ts'
import { findDestination, findSource } from '../connectors/registry.ts'
import { createRedact } from '../connectors/settings/redact.ts'
import { applyDefaults, isObject } from '../connectors/settings/settings.ts'
import type { Database } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import type { Egress } from '../egress/policy.ts'
import { AppError } from '../errors.ts'
import { trimError } from '../executors/reports.ts'
import type { Actor } from '../tenancy/actor.ts'
import { findSizeFault } from './config-size.ts'
import { checkDestination, checkSource, findEndpointFaults } from './endpoint-faults.ts'
import type { DestinationConfig, SourceConfig } from './endpoint-shape.ts'
import { refuse } from './faults.ts'
import { findReadableParts } from './readable-outputs.ts'
import { asConnector, type CustomRow, loadReferences, outputsOf, wantedBy } from './references.ts'
import {
  type ResolvedDestination,
  type ResolvedSource,
  resolveDestination,
  resolveSource,
  secretsOf,
} from './resolve.ts'
import { createTurns } from './turns.ts'

export interface ProbeServices {
  db: Database
  box: SecretBox
  blobs: BlobStore
  egress: Egress
  cells(): Zygote
}

export interface ProbeInput {
  source?: unknown
  destination?: unknown
}

export interface ProbeResult {
  success: boolean
  message: string
  streams: string[]
}

/** One side of a config, whole, with the code where it is a custom source. */
type Probed =
  | { kind: 'source'; endpoint: ResolvedSource; custom: CustomRow | null }
  | { kind: 'destination'; endpoint: ResolvedDestination }

const DEADLINE_MS = 30_000
/** What a server may answer to a check or a list of streams. It is read in the process that serves everybody. */
const MOST_BYTES = 32 * 1024 * 1024
const LOOK_MS = 50
const turns = createTurns(16, 'checks')

export async function checkConnector(services: ProbeServices, actor: Actor, input: ProbeInput): Promise<ProbeResult> {
  const probed = await readProbe(services, actor, input)
  return turns(actor.organization_id, () => probeConnector(services, actor.organization_id, probed, 'check'))
}

export async function listConnectorStreams(
  services: ProbeServices,
  actor: Actor,
  input: ProbeInput,
): Promise<ProbeResult> {
  const probed = await readProbe(services, actor, input)
  if (probed.kind === 'destination') throw new AppError('invalid_input', 'destination: only a source has streams')
  return turns(actor.organization_id, () => probeConnector(services, actor.organization_id, probed, 'streams'))
}

async function readProbe({ db, box }: ProbeServices, actor: Actor, input: ProbeInput): Promise<Probed> {
  const kinds = (['source', 'destination'] as const).filter((kind) => input[kind] !== undefined)
  const kind = kinds[0]
  if (kinds.length !== 1 || !kind) throw new AppError('invalid_input', 'The body: give either source or destination')
  const given = input[kind]
  if (!isObject(given)) throw refuse([`${kind}: must be an object`])
  const size = findSizeFault(given, kind)
  const faults = size === null ? findEndpointFaults(kind === 'source' ? 'probed_source' : kind, given, kind) : [size]
  if (faults.length > 0) throw refuse(faults)
  const references = await loadReferences(db, actor.organization_id, wantedBy({ [kind]: given }))
  if (kind === 'destination') {
    checkDestination(given as DestinationConfig, references, box, kind, faults)
    if (faults.length > 0) throw refuse(faults)
    return { kind, endpoint: resolveDestination(given as DestinationConfig, references, box) }
  }
  const traits = checkSource(given as unknown as SourceConfig, references, box, kind, faults)
  if (faults.length > 0) throw refuse(faults)
  const stream = traits!.streams === 'dynamic' ? '' : (traits!.streams[0] ?? '')
  return {
    kind,
    endpoint: resolveSource({ stream, ...given } as SourceConfig, references, box),
    custom: references.custom,
  }
}

/** The one place where a connector is called outside a run. `probed` is plain data, so that it may travel to another process. */
export async function probeConnector(
  services: ProbeServices,
  organizationId: string,
  probed: Probed,
  what: 'check' | 'streams',
): Promise<ProbeResult> {
  const redact = createRedact(
    secretsOf(
      probed.kind === 'source'
        ? { source: probed.endpoint, destination: NOTHING }
        : { source: NO_SOURCE, destination: probed.endpoint },
    ),
  )
  const signal = AbortSignal.timeout(DEADLINE_MS)
  try {
    const streams = await Promise.race([callConnector(services, organizationId, probed, what, signal), aborted(signal)])
    const message = what === 'check' ? 'The connection works' : `${streams.length} streams`
    return { success: true, message, streams }
  } catch (error) {
    const late = signal.aborted && !(error instanceof ConnectorError)
    const said = late
      ? `There was no answer within ${DEADLINE_MS / 1000} seconds`
      : (error as Error).message || (error as Error).name
    return { success: false, message: trimError(redact(said)), streams: [] }
  }
}

const NOTHING: ResolvedDestination = { name: '', config: {} }
const NO_SOURCE: ResolvedSource = {
  name: '',
  stream: '',
  authentication: { type: 'none', params: {} },
  config: {},
}

async function callConnector(
  services: ProbeServices,
  organizationId: string,
  probed: Probed,
  what: 'check' | 'streams',
  signal: AbortSignal,
): Promise<string[]> {
  const quiet = () => {}
  const context: Omit<Context, 'config'> = {
    signal,
    egress: { ...services.egress, connect: limitAnswers(services.egress.connect, signal) },
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    outputs: await readOutputs(services, organizationId, probed),
    fault: quiet,
  }
  if (probed.kind === 'destination') {
    const destination = findDestination(probed.endpoint.name)!
    await destination.check({ ...context, config: applyDefaults(destination.settings, probed.endpoint.config) })
    return []
  }
  const source = findSource(probed.endpoint.name) ?? asConnector(probed.custom!, services.cells(), organizationId)
  const whole = {
    ...context,
    config: applyDefaults(source.settings, probed.endpoint.config),
    authentication: probed.endpoint.authentication,
    fetch: createFetch({ egress: context.egress, authentication: probed.endpoint.authentication, signal }),
  }
  if (what === 'streams') return source.listStreams(whole)
  await source.check(whole)
  return []
}

/** A driver gathers a message until it is whole, however long its sender says that it is. */
function limitAnswers(connect: Egress['connect'], signal: AbortSignal): Egress['connect'] {
  return async (host, port, options) => {
    const socket = await connect(host, port, options)
    const watch = setInterval(() => {
      if (socket.bytesRead > MOST_BYTES)
        socket.destroy(new ConnectorError('limit', `The server answered more than ${MOST_BYTES >> 20} MB to a check`))
    }, LOOK_MS).unref()
    const stop = () => clearInterval(watch)
    // Whoever listens on the connection hears of it; where TLS is put over it, nobody may listen down here.
    socket.on('error', stop).once('close', stop)
    signal.addEventListener('abort', stop, { once: true })
    return socket
  }
}

/** Of the outputs in the blob store a source sees those it names, if they are the organization's own. */
async function readOutputs(
  { db, blobs }: ProbeServices,
  organizationId: string,
  { kind, endpoint }: Probed,
): Promise<OutputReader> {
  const wanted = kind === 'source' ? outputsOf(findSource(endpoint.name), endpoint.config) : []
  const readable = await findReadableParts(db, organizationId, wanted)
  return { blobs, parts: (id) => readable[id.toLowerCase()] ?? null }
}

const aborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
