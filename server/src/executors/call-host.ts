/**
 * Inside an executor that serves interactive calls, one at a time. Each call has its own egress, which is closed with
 * it. Modules are loaded when the first call needs them.
 */
import type { BlobStore } from '../blobs/blobs.ts'
import type { HostFetch } from '../connectors/authentication/fetch.ts'
import { type RefreshTokens, unstored } from '../connectors/authentication/refresh-tokens.ts'
import {
  type Authentication,
  ConnectorError,
  type Context,
  type OutputReader,
  type Source,
  type SourceContext,
  type StreamDescription,
} from '../connectors/contract.ts'
import { duckdbWasOpened } from '../connectors/duckdb.ts'
import { hasOpenedFile } from '../connectors/opened-files.ts'
import { createRedact } from '../connectors/settings/redact.ts'
import type { Egress } from '../egress/policy.ts'
import type { Json } from '../json/json.ts'
import { loadUndici } from '../undici.ts'
import { type Answers, CALL_FRAME_LIMITS, isAnswer, MAX_DESCRIBED } from './answers.ts'
import { createCallEgress } from './call-egress.ts'
import type { Channel } from './channel.ts'
import type { CallInputs, CallKind, CallSettings, FromCall, ProbeInput, Served, ToExecutor } from './messages.ts'
import { Questions, storedByService } from './questions.ts'
import { cutMessage } from './reports.ts'

type CallMessage = Extract<ToExecutor, { type: 'call' }>

type SourceEndpoint = Extract<ProbeInput['endpoint'], { type: 'source' }>

interface CallHost {
  egress: Egress
  /** Aborted at the deadline. */
  signal: AbortSignal
  /** The time limit for a cell. */
  wall_seconds: number
  refreshTokens: RefreshTokens
  /** The fetches of this call. They hold tokens obtained on the way, which only they can redact. */
  fetches: HostFetch[]
}

type Performed<K extends CallKind> = { answer: Answers[K]; body?: Buffer }
type Performers = { [K in CallKind]: (input: CallInputs[K], host: CallHost) => Promise<Performed<K>> }

const performers: Performers = {
  async self_test() {
    const { getZygote } = await import('../cell/provider.ts')
    return { answer: await getZygote().selfTest() }
  },
  async check(input, host) {
    const { endpoint, stream } = input
    const { findDestination } = await import('../connectors/registry.ts')
    const { applyDefaults } = await import('../connectors/settings/settings.ts')
    const context = { ...(await makeContext(input, host)), stream }
    if (endpoint.type === 'destination') {
      const destination = findDestination(endpoint.name)!
      await destination.check({ ...context, config: applyDefaults(destination.settings, endpoint.config) })
    } else {
      const source = await openSource(endpoint)
      const config = applyDefaults(source.settings, endpoint.config)
      await source.check({ ...context, config, ...(await authenticate(endpoint.authentication, host)) })
    }
    return { answer: null }
  },
  async streams(input, host) {
    const { source, context } = await openProbe(input, host)
    return { answer: await source.listStreams(context) }
  },
  async describe(input, host) {
    const { source, context } = await openProbe(input, host)
    const streams = await source.listStreams(context)
    const wanted = (input.wanted ?? streams).slice(0, MAX_DESCRIBED)
    const described = wanted.length === 0 ? [] : await source.describe(context, wanted)
    return { answer: { streams, descriptions: described.map(toAnswer) } }
  },
  async preview(input, host) {
    const { previewSource } = await import('../cell/preview.ts')
    const { NO_AUTHENTICATION } = await import('../connectors/authentication/authentication.ts')
    const { signal, wall_seconds } = host
    const access = await authenticate(input.authentication ?? NO_AUTHENTICATION, host)
    const { records, ...answer } = await previewSource({ ...input, ...access, signal, wall_seconds })
    return { answer: { ...answer, error: answer.error && cutMessage(answer.error) }, body: records }
  },
  async validate({ code, source_name }, { signal }) {
    const { validateCode } = await import('../cell/validate.ts')
    return { answer: await validateCode(code, source_name, { signal }) }
  },
  async validate_manifest({ manifest }) {
    const { validateManifest } = await import('../connectors/registry.ts')
    return { answer: await validateManifest(manifest) }
  },
  async pipeline_preview(input, host) {
    const { source: endpoint, destination: target, outputs, max_records, ...rest } = input
    const { previewPipeline } = await import('../engine/preview.ts')
    const { findDestination } = await import('../connectors/registry.ts')
    const { applyDefaults } = await import('../connectors/settings/settings.ts')
    const { source, context: sourceContext } = await openProbe({ endpoint, outputs }, host)
    const destination = findDestination(target.name)!
    const config = applyDefaults(destination.settings, target.config)
    const destinationContext = { ...(await makeContext({ endpoint: target, outputs: null }, host)), config }
    const deadlineMs = host.wall_seconds * 1000
    const python = endpoint.custom?.language === 'python' ? endpoint.custom : null
    const readFirst = python && (await firstRecordsOf(python.code, rest.stream, sourceContext))
    const { records, columns, ...preview } = await previewPipeline({
      ...rest,
      source,
      sourceContext,
      destination,
      destinationContext,
      maxRecords: max_records,
      deadlineMs,
      ...(readFirst && { readFirst }),
    })
    const shown = columns.map(({ name, type, native }) => ({ name, type, native_type: native?.type ?? null }))
    return { answer: { ...preview, columns: shown }, body: records }
  },
  async query({ blobs, memory_mb, ...query }, { signal }) {
    const { openBlobs } = await import('../blobs/open.ts')
    const { queryOutput } = await import('../engine/query/query-output.ts')
    const started = performance.now()
    const { body, ...answer } = await queryOutput({ ...query, blobs: openBlobs(blobs), memoryMb: memory_mb, signal })
    return { answer: { ...answer, execution_time_ms: Math.round(performance.now() - started) }, body }
  },
}

/** A custom source gives its pages only when they are full. */
async function firstRecordsOf(code: string, stream: string, context: SourceContext) {
  const { readFirstRecords } = await import('../cell/first-records.ts')
  const { authentication, fetch } = context
  const config = context.config as Record<string, Json>
  return (max_records: number, signal: AbortSignal) =>
    readFirstRecords({ code, stream, max_records, authentication, fetch, config, signal })
}

/** A source with everything it is called with. */
async function openProbe(input: ProbeInput, host: CallHost): Promise<{ source: Source; context: SourceContext }> {
  const { endpoint } = input
  if (endpoint.type === 'destination') throw new Error('only a source has streams')
  const { applyDefaults } = await import('../connectors/settings/settings.ts')
  const source = await openSource(endpoint)
  const config = applyDefaults(source.settings, endpoint.config)
  const context = {
    ...(await makeContext(input, host)),
    config,
    ...(await authenticate(endpoint.authentication, host)),
  }
  return { source, context }
}

function toAnswer({ columns, ...rest }: StreamDescription): Answers['describe']['descriptions'][number] {
  const shown = columns?.map(({ name, type, native, nullable }) => ({
    name,
    type,
    native_type: native?.type ?? null,
    nullable: nullable ?? null,
  }))
  return { ...rest, columns: shown ?? null }
}

/** Everything except the settings and the stream, which belong to the connector. */
async function makeContext({ outputs }: ProbeInput, { egress, signal }: CallHost): Promise<Omit<Context, 'config'>> {
  const quiet = () => {}
  const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  return { egress, signal, log, fault: quiet, outputs: await openOutputs(outputs) }
}

/** The authentication of a source, and requests that carry it. */
async function authenticate(authentication: Authentication, { egress, signal, refreshTokens, fetches }: CallHost) {
  const { createFetch } = await import('../connectors/authentication/fetch.ts')
  const fetch = createFetch({ egress, authentication, signal, refreshTokens })
  fetches.push(fetch)
  return { authentication, fetch }
}

async function openOutputs(outputs: ProbeInput['outputs']): Promise<OutputReader> {
  if (outputs === null) return { parts: () => null, blobs: NO_BLOBS }
  const { openBlobs } = await import('../blobs/open.ts')
  const { parts, columns, blobs } = outputs
  return {
    parts: (id) => parts[id.toLowerCase()] ?? null,
    columns: (id) => columns[id.toLowerCase()] ?? null,
    blobs: openBlobs(blobs),
  }
}

/** A source that names no outputs does not need the blob store, and did not get its credentials. */
const NO_BLOBS = new Proxy({} as BlobStore, {
  get() {
    throw new Error('this call has no blob store')
  },
})

async function openSource(endpoint: SourceEndpoint): Promise<Source> {
  if (endpoint.custom === null) return (await import('../connectors/registry.ts')).findSource(endpoint.name)!
  const { code, streams, language } = endpoint.custom
  const { name } = endpoint
  if (language === 'manifest') {
    const { savedManifest } = await import('../connectors/registry.ts')
    return savedManifest(name, code) as unknown as Source
  }
  const { pythonSource } = await import('../cell/python-source.ts')
  return pythonSource({ source_name: name, display_name: name, description: '', code, streams }) as unknown as Source
}

export async function serveCalls(settings: CallSettings, channel: Channel): Promise<Served> {
  const { configureCells, getZygote } = await import('../cell/provider.ts')
  configureCells(settings.cell)
  // Before the first call, which then finds a sealed cell waiting.
  getZygote()
  let crashed = false
  const send = (message: FromCall, body?: Buffer): void => {
    if (!crashed) channel.send(message, body)
  }
  const questions = new Questions()
  // A driver that is fed garbage may throw where it cannot be caught. The caller is told, and the API ends this
  // process.
  process.on('uncaughtException', (error) => {
    send({ type: 'failure', kind: 'internal', message: explain(error), reusable: false })
    crashed = true
  })
  return {
    async preload() {
      const [{ loadManifests }] = await Promise.all([
        import('../connectors/registry.ts'),
        import('../cell/preview.ts'),
        import('../cell/validate.ts'),
      ])
      await loadManifests()
      loadUndici()
    },
    receive(message) {
      if (message.type !== 'call') return questions.answer(message)
      send({ type: 'begun' })
      void performCall(message, send, message.keeps_tokens ? storedByService(questions, send) : unstored)
    },
  }
}

async function performCall(
  message: CallMessage,
  send: (message: FromCall, body?: Buffer) => void,
  refreshTokens: RefreshTokens,
): Promise<void> {
  const { kind, input } = message.call
  const deadline = AbortSignal.timeout(message.deadline_ms + LATE_MS)
  const { egress, close } = createCallEgress(message.egress)
  const host: CallHost = {
    egress,
    signal: deadline,
    wall_seconds: message.deadline_ms / 1000,
    refreshTokens,
    fetches: [],
  }
  let result: { message: FromCall; body?: Buffer | undefined }
  try {
    const perform = performers[kind] as (input: unknown, host: CallHost) => Promise<Performed<CallKind>>
    const { answer, body } = await Promise.race([perform(input, host), rejectAt(deadline)])
    validateAnswer(kind, answer)
    result = { message: { type: 'answer', answer, reusable: !openedFiles() }, body }
  } catch (error) {
    const known = error instanceof ConnectorError
    const late = deadline.aborted && !known
    result = {
      message: {
        type: 'failure',
        kind: late ? 'timeout' : known ? error.kind : 'internal',
        message: late ? `No answer within ${host.wall_seconds} seconds` : explain(error, host.fetches),
        // Code that did not stop when asked to may still be running.
        reusable: !deadline.aborted && !openedFiles(),
      },
    }
  }
  // Before the answer is sent: afterwards the process may already handle another call, or be gone. A token exchange in
  // progress is awaited, and what closing interrupts must report it before the answer.
  const settled = () => Promise.all(host.fetches.map((fetch) => fetch.settled()))
  await Promise.race([settled(), rejectAt(deadline)]).catch(() => {})
  await close()
  await settled()
  send(result.message, result.body)
}

/** A native parser was fed with foreign bytes. */
const openedFiles = (): boolean => duckdbWasOpened() || hasOpenedFile()

/** A cell reports its own timeout, together with its log; that answer is awaited a little longer. */
const LATE_MS = 500

const rejectAt = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))

/** Refuses here what the API would refuse, because here the reason can still be given. */
function validateAnswer(kind: CallKind, answer: unknown): void {
  if (!isAnswer(kind, answer) || Buffer.byteLength(JSON.stringify(answer)) > CALL_FRAME_LIMITS.head - 1024)
    throw new ConnectorError('limit', 'The answer is too large to show; request less')
}

function explain(error: unknown, fetches: readonly HostFetch[] = []): string {
  const redact = createRedact(fetches.flatMap(({ obtained }) => obtained))
  return cutMessage(redact(error instanceof Error ? error.message || error.name : String(error)))
}
