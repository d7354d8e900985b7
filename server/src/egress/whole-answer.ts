/**
 * The whole answer in memory. Sources often make many small requests in sequence, so the bytes are collected straight
 * from the connection, without streams in between.
 */
import type { Dispatcher } from 'undici'
import { type Decoder, decodersFor } from './decoders.ts'
import { tooLarge, tooLate, translateFailure } from './failures.ts'
import {
  type AnswerReader,
  announcesMoreThan,
  decodedHeaders,
  encodingOf,
  followHops,
  hasBody,
  REDIRECT_BYTES,
  redirectTarget,
} from './hops.ts'
import type { Hop } from './redirects.ts'
import { EgressFailed } from './refusal.ts'
import type { AnswerHead, AnswerHeaders, Sender, WholeRequest } from './request.ts'
import type { OpenRequest } from './request-group.ts'

export interface WholeAnswer extends AnswerHead {
  body: Buffer
}

interface Raw {
  status: number
  headers: AnswerHeaders
  body: Buffer
}

const TIMEOUT_MS = 60_000
const MAX_BYTES = 64 * 1024 * 1024

/** Sends a request and collects its answer. Defaults: 60 seconds and 64 MiB. */
export function fetchWhole(sender: Sender, url: string | URL, request: WholeRequest): Promise<WholeAnswer> {
  return followHops(sender, url, request, new WholeReader(sender.dispatcher, request))
}

class WholeReader implements AnswerReader<Raw, WholeAnswer> {
  readonly dispatcher: Dispatcher
  readonly request: WholeRequest
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly #started = performance.now()
  #hops = 0

  constructor(dispatcher: Dispatcher, request: WholeRequest) {
    this.dispatcher = dispatcher
    this.request = request
    this.timeoutMs = request.timeoutMs ?? TIMEOUT_MS
    this.maxBytes = request.maxBytes ?? MAX_BYTES
  }

  /** Node keeps timers of the same duration in one list, so first hops with the same timeout are cheap. */
  get leftMs(): number {
    return this.#hops++ === 0
      ? this.timeoutMs
      : Math.max(this.timeoutMs - Math.round(performance.now() - this.#started), 0)
  }

  send(hop: Hop): Promise<Raw> {
    const signal = this.request.group?.signal ?? this.request.signal
    if (signal?.aborted) return Promise.reject(signal.reason)
    const { origin, pathname, search } = hop.url
    return new Promise((resolve, reject) => {
      const collector = new Collector(this, hop, resolve, reject)
      const method = hop.method as Dispatcher.HttpMethod
      const path = search === '' ? pathname : `${pathname}${search}`
      try {
        this.dispatcher.dispatch({ origin, path, method, headers: hop.headers, body: hop.body }, collector)
      } catch (error) {
        collector.abort(translateFailure(error, hop.url.host))
      }
    })
  }

  discard(redirect: Raw): void {
    this.release(redirect.body.length)
  }

  finish(raw: Raw, hop: Hop, requests: number): Promise<WholeAnswer> | WholeAnswer {
    const url = hop.url.href
    const encoding = raw.body.length === 0 ? null : encodingOf(raw, hop, this.request)
    if (encoding === null) return { status: raw.status, headers: raw.headers, url, requests, body: raw.body }
    return this.#decode(raw, hop, decodersFor(encoding, hop.url.host)).then((body) => ({
      status: raw.status,
      headers: decodedHeaders(raw.headers),
      url,
      requests,
      body,
    }))
  }

  /** Undefined if the bytes fit, otherwise why they do not. */
  take(bytes: number): EgressFailed | undefined {
    const { room } = this.request
    if (room === undefined) return undefined
    room.bytes -= bytes
    return room.bytes < 0 ? noRoom() : undefined
  }

  release(bytes: number): void {
    if (this.request.room !== undefined) this.request.room.bytes += bytes
  }

  async #decode({ body: packed }: Raw, hop: Hop, decoders: Decoder[]): Promise<Buffer> {
    const { host } = hop.url
    let body = packed
    for (const decoder of decoders) {
      const before = body.length
      const room = (this.request.room?.bytes ?? Number.POSITIVE_INFINITY) + before
      const most = Math.max(Math.min(this.maxBytes, room), 1)
      try {
        body = await decoder.decode(body, most)
      } catch (error) {
        if ((error as { code?: string }).code !== 'ERR_BUFFER_TOO_LARGE') throw translateFailure(error, host)
        throw room < this.maxBytes ? noRoom() : tooLarge(host, this.maxBytes)
      }
      const full = this.take(body.length - before)
      if (full) throw full
    }
    return body
  }
}

const noRoom = () =>
  new EgressFailed('too_large', 'the answers of one batch of requests are too large together; send fewer at once')

/** One hop and its raw answer. A class, so that a request allocates one object instead of a closure per event. */
class Collector implements Dispatcher.DispatchHandler, OpenRequest {
  readonly #reader: WholeReader
  readonly #hop: Hop
  readonly #resolve: (answer: Raw) => void
  readonly #reject: (error: Error) => void
  readonly #timer: NodeJS.Timeout
  readonly #stop: (() => void) | null
  #controller: Dispatcher.DispatchController | null = null
  #ended = false
  #chunks: Buffer[] = []
  #size = 0
  #status = 0
  #headers: AnswerHeaders = {}
  /** A redirect that is followed: its body is not needed. */
  #redirects = false

  constructor(reader: WholeReader, hop: Hop, resolve: (answer: Raw) => void, reject: (error: Error) => void) {
    this.#reader = reader
    this.#hop = hop
    this.#resolve = resolve
    this.#reject = reject
    this.#timer = setTimeout(() => this.abort(tooLate(reader.timeoutMs)), reader.leftMs)
    const { group, signal } = reader.request
    group?.add(this)
    this.#stop = group === undefined && signal !== undefined ? () => this.abort(signal.reason) : null
    if (this.#stop) signal!.addEventListener('abort', this.#stop, { once: true })
  }

  abort(reason: Error): void {
    if (!this.#end()) return
    this.#reader.release(this.#size)
    this.#controller?.abort(reason)
    this.#reject(reason)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // It may have waited for a connection beyond its deadline.
    if (this.#ended) controller.abort(tooLate(this.#reader.timeoutMs))
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    this.#status = status
    this.#headers = headers
    this.#redirects = redirectTarget({ status, headers }, this.#reader.request) !== undefined
    const { maxBytes } = this.#reader
    if (!this.#redirects && announcesMoreThan(maxBytes, headers) && hasBody(status, this.#hop))
      this.abort(tooLarge(this.#hop.url.host, maxBytes))
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#ended) return
    const { maxBytes } = this.#reader
    this.#size += chunk.length
    const full = this.#reader.take(chunk.length)
    if (this.#redirects && this.#size > REDIRECT_BYTES) this.#cut()
    else if (this.#size > maxBytes) this.abort(tooLarge(this.#hop.url.host, maxBytes))
    else if (full) this.abort(full)
    else this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    if (!this.#end()) return
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
    this.#resolve({ status: this.#status, headers: this.#headers, body })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.abort(translateFailure(error, this.#hop.url.host))
  }

  /** A redirect with a large body: the connection is closed, and the redirect is followed. */
  #cut(): void {
    if (!this.#end()) return
    this.#reader.release(this.#size)
    this.#controller?.abort(new EgressFailed('redirects', 'the body of a redirect is not read'))
    this.#resolve({ status: this.#status, headers: this.#headers, body: Buffer.alloc(0) })
  }

  #end(): boolean {
    if (this.#ended) return false
    this.#ended = true
    clearTimeout(this.#timer)
    const { group, signal } = this.#reader.request
    group?.delete(this)
    if (this.#stop) signal!.removeEventListener('abort', this.#stop)
    return true
  }
}
