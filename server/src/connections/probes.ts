/**
 * Probes a connector interactively: whether it connects, and which streams it has. Invalid input is an error; a system
 * that does not answer or refuses is a result.
 */

import { type BlobSettings, pickBlobSettings } from '../blobs/open.ts'
import { findSource } from '../connectors/registry.ts'
import { createRedact } from '../connectors/settings/redact.ts'
import { isObject } from '../connectors/settings/settings.ts'
import type { Database } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { AppError } from '../errors.ts'
import { type Answers, MAX_DESCRIBED } from '../executors/answers.ts'
import type { CallResult } from '../executors/call.ts'
import type { CallPool } from '../executors/call-pool.ts'
import type { CallInputs, ProbedEndpoint, ReadableOutputs } from '../executors/messages.ts'
import { trimError } from '../executors/reports.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { visibleDomain } from '../tenancy/visibility.ts'
import { type CallTokens, openTokens, openUnstoredTokens, originOf, withNote } from './call-tokens.ts'
import { findSizeFault } from './config-size.ts'
import { checkDestination, checkSource, findEndpointFaults, nameStreams } from './endpoint-faults.ts'
import type { DestinationConfig, SourceConfig } from './endpoint-shape.ts'
import { refuse } from './faults.ts'
import { findReadableOutputs } from './readable-outputs.ts'
import { loadReferences, outputsOf, wantedBy } from './references.ts'
import {
  type ResolvedDestination,
  type ResolvedSource,
  resolveDestination,
  resolveSource,
  secretsOf,
} from './resolve.ts'

export interface ProbeServices {
  db: Database
  box: SecretBox
  config: BlobSettings
  calls: CallPool
}

export interface ProbeInput {
  source?: unknown
  destination?: unknown
  /** A check also tries this one, a description is of this one alone. */
  stream?: string
  /** The pipeline that the secrets came from, whose refresh token is replaced if the provider rotates it. */
  pipeline_id?: string
}

export interface StreamsInput extends ProbeInput {
  describe?: boolean
}

export interface StreamsResult {
  success: boolean
  message: string
  streams: string[]
  descriptions?: Answers['describe']['descriptions']
}

export async function checkConnector(
  services: ProbeServices,
  actor: Actor,
  input: ProbeInput,
  signal: AbortSignal,
): Promise<{ success: boolean; message: string }> {
  const probed = await readProbe(services, actor, input)
  const stream = streamOf(input)
  requireStream(probed, stream)
  const { result, say } = await callExecutor(services, actor, { kind: 'check', probed, more: { stream } }, signal)
  if (!result.ok) return { success: false, message: say(result.message) }
  const verb = probed.endpoint.type === 'source' ? 'read' : 'written'
  const more = stream === null ? '' : `, and the stream '${stream}' can be ${verb}`
  return { success: true, message: say(`The connection works${more}`) }
}

/** Given as `stream`, or as `source.stream` as in a pipeline's config. */
function streamOf({ source, stream }: ProbeInput): string | null {
  const own = isObject(source) && typeof source.stream === 'string' ? source.stream : undefined
  if (stream !== undefined && own !== undefined && stream !== own)
    throw refuse(['stream: differs from source.stream; give only one of them'])
  return stream ?? own ?? null
}

/** What is known without a call. */
function requireStream({ endpoint, streams: known }: Probed, stream: string | null): void {
  if (endpoint.type === 'destination' || stream === null || known === 'dynamic' || known.includes(stream)) return
  throw refuse([`stream: ${endpoint.name} has no stream '${stream.slice(0, 100)}'; ${nameStreams(stream, known)}`])
}

export async function listConnectorStreams(
  services: ProbeServices,
  actor: Actor,
  input: StreamsInput,
  signal: AbortSignal,
): Promise<StreamsResult> {
  const probed = await readProbe(services, actor, input)
  if (probed.endpoint.type === 'destination')
    throw new AppError('invalid_input', 'destination: only a source has streams')
  if (input.describe) return describeStreams(services, actor, { probed, stream: input.stream ?? null }, signal)
  if (input.stream !== undefined) throw refuse(['stream: names the stream to describe; it needs describe: true'])
  const { result, say } = await callExecutor(services, actor, { kind: 'streams', probed, more: {} }, signal)
  if (!result.ok) return { success: false, message: say(result.message), streams: [] }
  return { success: true, message: say(countStreams(result.answer)), streams: result.answer }
}

const countStreams = ({ length }: readonly string[]) => `${length} ${length === 1 ? 'stream' : 'streams'}`

async function describeStreams(
  services: ProbeServices,
  actor: Actor,
  { probed, stream }: { probed: Probed; stream: string | null },
  signal: AbortSignal,
): Promise<StreamsResult> {
  requireStream(probed, stream)
  const wanted = stream === null ? null : [stream]
  const { result, say } = await callExecutor(services, actor, { kind: 'describe', probed, more: { wanted } }, signal)
  if (!result.ok) return { success: false, message: say(result.message), streams: [], descriptions: [] }
  const { streams, descriptions } = result.answer
  return { success: true, message: say(countStreams(streams)), streams, descriptions }
}

/** Describes these streams of a source, however many there are. */
export async function describeEach(
  services: ProbeServices,
  actor: Actor,
  { source, streams }: { source: unknown; streams: readonly string[] },
  signal: AbortSignal,
): Promise<StreamsResult> {
  const descriptions: Answers['describe']['descriptions'] = []
  for (let from = 0; from < streams.length; from += MAX_DESCRIBED) {
    const probed = await readProbe(services, actor, { source })
    const wanted = streams.slice(from, from + MAX_DESCRIBED)
    const { result, say } = await callExecutor(services, actor, { kind: 'describe', probed, more: { wanted } }, signal)
    if (!result.ok) return { success: false, message: say(result.message), streams: [] }
    descriptions.push(...result.answer.descriptions)
  }
  return { success: true, message: '', streams: [...streams], descriptions }
}

/** Describes the stream of a source that is complete already. Its credentials may be stored nowhere. */
export async function describeResolved(
  services: ProbeServices,
  actor: Actor,
  source: ResolvedSource,
  signal: AbortSignal,
): Promise<{ problem: string | null; description?: Answers['describe']['descriptions'][number] | undefined }> {
  const { name, stream, authentication, config, custom } = source
  const code = custom ? { code: custom.code, streams: [stream], language: custom.language } : null
  const probed: Probed = {
    endpoint: { type: 'source', name, authentication, config, custom: code },
    streams: [stream],
    redact: createRedact(secretsOf({ source, destination: NOTHING })),
    tokens: openUnstoredTokens(),
  }
  const call: ProbeCall<'describe'> = { kind: 'describe', probed, more: { wanted: [stream] } }
  const { result, say } = await callExecutor(services, actor, call, signal)
  return result.ok ? { problem: null, description: result.answer.descriptions[0] } : { problem: say(result.message) }
}

/** One side of a config, complete, and what redacts its secrets. */
interface Probed {
  endpoint: ProbedEndpoint
  streams: readonly string[] | 'dynamic'
  redact: (text: string) => string
  tokens: CallTokens
}

type ProbeKind = 'check' | 'streams' | 'describe'

interface ProbeCall<K extends ProbeKind> {
  kind: K
  probed: Probed
  /** What the call needs besides the endpoint. */
  more: Omit<CallInputs[K], 'endpoint' | 'outputs'>
}

/** The result, and a function that formats a message about it for the caller. */
async function callExecutor<K extends ProbeKind>(
  services: ProbeServices,
  actor: Actor,
  { kind, probed, more }: ProbeCall<K>,
  signal: AbortSignal,
): Promise<{ result: CallResult<K>; say: (text: string) => string }> {
  const { endpoint, redact, tokens } = probed
  const outputs = await findOutputs(services, actor, endpoint)
  const options = { signal, tokens: tokens.refreshTokens }
  const input = { ...more, endpoint, outputs } as CallInputs[K]
  const result = await services.calls.run(actor.organization_id, kind, input, options).finally(() => tokens.close())
  return { result, say: (text) => withNote(trimError(redact(text)), tokens.note()) }
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
    checkDestination(given as DestinationConfig, { references, box, path: kind, faults })
    if (faults.length > 0) throw refuse(faults)
    const { name, config } = resolveDestination(given as DestinationConfig, references, box)
    const redact = createRedact(secretsOf({ source: NO_SOURCE, destination: { name, config } }))
    return { endpoint: { type: kind, name, config }, streams: [], redact, tokens: openUnstoredTokens() }
  }
  const traits = checkSource(given as unknown as SourceConfig, { references, box, path: kind, faults })
  if (faults.length > 0) throw refuse(faults)
  const { streams } = traits!
  const stream = streams === 'dynamic' ? '' : (streams[0] ?? '')
  const {
    name,
    authentication,
    config,
    custom,
    saved_connector_id: id,
    overrides = {},
  } = resolveSource({ stream, ...given } as SourceConfig, references, box)
  // A source may name the output of a run, also a saved one, and an API key may have the one permission without the other.
  if (outputsOf(findSource(name), config).length > 0) requirePermission(actor, 'pipelines:read', visibleDomain(actor))
  const redact = createRedact(secretsOf({ source: { name, stream, authentication, config }, destination: NOTHING }))
  const code = custom ? { code: custom.code, streams: references.custom!.streams, language: custom.language } : null
  const origin = originOf(id, input.pipeline_id)
  const tokens = openTokens({ db, box }, actor.organization_id, origin, { name, authentication, config, overrides })
  return { endpoint: { type: kind, name, authentication, config, custom: code }, streams, redact, tokens }
}

const NOTHING: ResolvedDestination = { name: '', config: {} }
const NO_SOURCE: ResolvedSource = {
  name: '',
  stream: '',
  authentication: { type: 'none', params: {} },
  config: {},
}

/** A source can read the outputs that it names, if they belong to its organization and the caller sees their runs. */
export async function findOutputs(
  { db, config }: ProbeServices,
  actor: Actor,
  endpoint: ProbedEndpoint,
): Promise<ReadableOutputs | null> {
  const wanted = endpoint.type === 'source' ? outputsOf(findSource(endpoint.name), endpoint.config) : []
  const found = await findReadableOutputs(db, actor.organization_id, wanted, visibleDomain(actor))
  return Object.keys(found.parts).length === 0 ? null : { ...found, blobs: pickBlobSettings(config) }
}
