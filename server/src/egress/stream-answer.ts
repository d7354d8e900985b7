/** The answer as a stream, for large bodies: only a few chunks are in memory, with backpressure on the server. */
import { pipeline, type Readable, Transform, type TransformCallback } from 'node:stream'
import type { Dispatcher } from 'undici'
import { untilAborted } from './connect.ts'
import { type Decoder, decodersFor, decodeStream } from './decoders.ts'
import { tooLarge, tooLate, translateFailure } from './failures.ts'
import {
  type AnswerReader,
  announcesMoreThan,
  decodedHeaders,
  encodingOf,
  followHops,
  hasBody,
  REDIRECT_BYTES,
} from './hops.ts'
import type { Hop } from './redirects.ts'
import type { AnswerHead, AnswerHeaders, EgressRequest, Sender } from './request.ts'

export interface StreamAnswer extends AnswerHead {
  /** Destroy it to give up. */
  body: Readable
}

interface Raw {
  status: number
  headers: AnswerHeaders
  body: Dispatcher.ResponseData['body']
}

/** Sends a request and returns its answer as a stream. Without `timeoutMs` only silence ends it. */
export async function openStream(sender: Sender, url: string | URL, request: EgressRequest): Promise<StreamAnswer> {
  const lifetime = startLifetime(request)
  try {
    return await followHops(sender, url, request, streamReader(sender.dispatcher, request, lifetime))
  } catch (error) {
    lifetime.release()
    throw error
  }
}

interface Lifetime {
  signal: AbortSignal
  release(): void
}

function startLifetime({ signal: given, timeoutMs }: EgressRequest): Lifetime {
  const controller = new AbortController()
  const stop = () => controller.abort(given?.reason)
  if (given?.aborted) stop()
  given?.addEventListener('abort', stop, { once: true })
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => controller.abort(tooLate(timeoutMs)), timeoutMs)
  return {
    signal: controller.signal,
    release() {
      clearTimeout(timer)
      given?.removeEventListener('abort', stop)
    },
  }
}

function streamReader(
  dispatcher: Dispatcher,
  request: EgressRequest,
  lifetime: Lifetime,
): AnswerReader<Raw, StreamAnswer> {
  return {
    send: (hop) => sendHop(dispatcher, hop, lifetime.signal, request.silenceMs),
    async discard({ body }) {
      await body.dump({ limit: REDIRECT_BYTES }).catch(() => {})
    },
    finish(raw, hop, requests) {
      try {
        return openAnswer(raw, { hop, requests, request, lifetime })
      } catch (error) {
        raw.body.on('error', () => {}).destroy()
        throw error
      }
    },
  }
}

async function sendHop(
  dispatcher: Dispatcher,
  hop: Hop,
  signal: AbortSignal,
  silenceMs: number | undefined,
): Promise<Raw> {
  const sending = dispatcher.request({
    origin: hop.url.origin,
    path: `${hop.url.pathname}${hop.url.search}`,
    method: hop.method as Dispatcher.HttpMethod,
    headers: hop.headers,
    body: hop.body,
    signal,
    ...(silenceMs === undefined ? {} : { headersTimeout: silenceMs, bodyTimeout: silenceMs }),
  })
  try {
    // undici reacts to an abort only once it is connected.
    const { statusCode: status, headers, body } = await untilAborted(sending, signal)
    return { status, headers, body }
  } catch (error) {
    sending.then(({ body }) => body.on('error', () => {}).destroy()).catch(() => {})
    if (signal.aborted) throw signal.reason
    throw translateFailure(error, hop.url.host)
  }
}

interface Sent {
  hop: Hop
  requests: number
  request: EgressRequest
  lifetime: Lifetime
}

function openAnswer(raw: Raw, { hop, requests, request, lifetime }: Sent): StreamAnswer {
  const { host, href: url } = hop.url
  const { status, headers } = raw
  const maxBytes = request.maxBytes ?? Number.POSITIVE_INFINITY
  if (announcesMoreThan(maxBytes, headers) && hasBody(status, hop)) throw tooLarge(host, maxBytes)
  const encoding = encodingOf(raw, hop, request)
  const decoders = encoding === null ? [] : decodersFor(encoding, host)
  const body = new Meter(host, maxBytes, lifetime.signal)
  const stages = [raw.body, ...decoders.map(asStage), body] as unknown as [Readable, Meter]
  pipeline(...stages, () => lifetime.release())
  return { status, headers: encoding === null ? headers : decodedHeaders(headers), url, requests, body }
}

const asStage = (decoder: Decoder) => (source: AsyncIterable<Buffer>) => decodeStream(decoder, source)

/** Counts what comes out of the decoders, and translates the error if a body breaks off. */
class Meter extends Transform {
  readonly #host: string
  readonly #maxBytes: number
  readonly #signal: AbortSignal
  #bytes = 0

  constructor(host: string, maxBytes: number, signal: AbortSignal) {
    super({ highWaterMark: 64 * 1024 })
    this.#host = host
    this.#maxBytes = maxBytes
    this.#signal = signal
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#bytes += chunk.length
    if (this.#bytes > this.#maxBytes) done(tooLarge(this.#host, this.#maxBytes))
    else done(null, chunk)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (error && this.#signal.aborted) done(this.#signal.reason)
    else done(error && translateFailure(error, this.#host))
  }
}
