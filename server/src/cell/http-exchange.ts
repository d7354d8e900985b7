/**
 * One request of a cell and its whole answer. The rules are those of `egress`, hop by hop: its check of every address, its
 * dispatcher, its treatment of headers and redirects. What differs is the way to the bytes: an answer is collected in
 * memory without streams in between, because a source that makes small requests one after another makes many of them.
 */
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, inflateRaw, zstdDecompress } from 'node:zlib'
import type { Dispatcher } from 'undici'
import { tooLarge, translateFailure } from '../egress/body.ts'
import { firstHop } from '../egress/first-hop.ts'
import { type Egress, EgressFailed, EgressRefused } from '../egress/policy.ts'
import { type Hop, isRedirect, nextHop } from '../egress/redirects.ts'

export interface ExchangeRequest {
  method: string
  url: string
  headers: Record<string, string>
  body: Buffer | null
  /** For everything, redirects and body included. */
  timeoutMs: number
  /** After decompression. */
  maxBytes: number
  /** What is left for the answers of a whole batch, which are in memory together. */
  room: { bytes: number }
  /** What is under way. Whoever aborts the signal ends all of it; here it is only looked at, for a listener is dear. */
  open: Set<OpenExchange>
  signal: AbortSignal
}

export interface OpenExchange {
  abort(reason: Error): void
}

export interface ExchangeAnswer {
  status: number
  headers: AnswerHeaders
  url: string
  body: Buffer
}

/** By their names in lower case. */
export type AnswerHeaders = Record<string, string | string[] | undefined>

/** Of a header that was sent more than once, what was sent first. */
export function headerOf(answer: ExchangeAnswer, name: string): string | undefined {
  const value = answer.headers[name]
  return typeof value === 'string' ? value : value?.[0]
}

const MAX_REDIRECTS = 10
/** No server takes longer ones, and each is held a few times while it is on its way. */
const MAX_URL_LENGTH = 65_536

export async function exchange(egress: Egress, request: ExchangeRequest): Promise<ExchangeAnswer> {
  const deadline = performance.now() + request.timeoutMs
  if (request.url.length > MAX_URL_LENGTH) {
    throw new EgressRefused('host', `the address has more than ${MAX_URL_LENGTH} characters; send the rest as a body`)
  }
  const { method, headers, body } = request
  let hop = firstHop(request.url, { method, headers, body, userAgent: 'sluice' })
  // Timers of one length are cheap: all first hops that wait as long share a list.
  let leftMs = request.timeoutMs
  for (let redirects = 0; ; redirects++) {
    egress.checkUrl(hop.url)
    const answer = await sendHop(egress.dispatcher, hop, request, leftMs)
    const location = headerOf(answer, 'location')
    if (!isRedirect(answer.status) || location === undefined) {
      return answer.headers['content-encoding'] === undefined ? answer : decompress(answer, hop, request)
    }
    if (redirects === MAX_REDIRECTS) {
      throw new EgressFailed('redirects', `${hop.url.host} redirects more than ${MAX_REDIRECTS} times`)
    }
    request.room.bytes += answer.body.length
    hop = nextHop(hop, answer.status, location)
    leftMs = Math.max(deadline - performance.now(), 0)
  }
}

/** One hop and its answer, as it was sent. A class, so that a request allocates one object and not a function per event. */
class Exchange implements Dispatcher.DispatchHandler, OpenExchange {
  readonly #hop: Hop
  readonly #request: ExchangeRequest
  readonly #resolve: (answer: ExchangeAnswer) => void
  readonly #reject: (error: Error) => void
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | null = null
  #ended = false
  #chunks: Buffer[] = []
  #size = 0
  #status = 0
  #headers: AnswerHeaders = {}

  constructor(
    hop: Hop,
    request: ExchangeRequest,
    leftMs: number,
    resolve: (answer: ExchangeAnswer) => void,
    reject: (error: Error) => void,
  ) {
    this.#hop = hop
    this.#request = request
    this.#resolve = resolve
    this.#reject = reject
    this.#timer = setTimeout(() => this.#fail(this.#late()), leftMs)
    request.open.add(this)
  }

  abort(reason: Error): void {
    this.#fail(reason)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // It may have waited for a connection longer than anybody waited for it.
    if (this.#ended) controller.abort(this.#late())
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    this.#status = status
    this.#headers = headers
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    const { maxBytes, room } = this.#request
    this.#size += chunk.length
    room.bytes -= chunk.length
    if (this.#size > maxBytes) this.#fail(tooLarge(this.#hop.url.host, maxBytes))
    else if (room.bytes < 0) this.#fail(noRoom())
    else this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    if (!this.#end()) return
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
    this.#resolve({ status: this.#status, headers: this.#headers, url: this.#hop.url.href, body })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#fail(translateFailure(error, this.#hop.url.host))
  }

  #fail(error: Error): void {
    if (!this.#end()) return
    this.#request.room.bytes += this.#size
    this.#controller?.abort(error)
    this.#reject(error)
  }

  #end(): boolean {
    if (this.#ended) return false
    this.#ended = true
    clearTimeout(this.#timer)
    this.#request.open.delete(this)
    return true
  }

  #late(): EgressFailed {
    return new EgressFailed('timeout', `there was no complete answer within ${this.#request.timeoutMs} ms`)
  }
}

function sendHop(dispatcher: Dispatcher, hop: Hop, request: ExchangeRequest, leftMs: number): Promise<ExchangeAnswer> {
  request.signal.throwIfAborted()
  const { origin, pathname, search } = hop.url
  return new Promise((resolve, reject) => {
    const handler = new Exchange(hop, request, leftMs, resolve, reject)
    const method = hop.method as Dispatcher.HttpMethod
    const path = search === '' ? pathname : `${pathname}${search}`
    dispatcher.dispatch({ origin, path, method, headers: hop.headers, body: hop.body }, handler)
  })
}

const noRoom = () =>
  new EgressFailed('too_large', 'the answers of one batch of requests are too large together; send fewer at once')

/** A longer chain than any server uses is there to multiply work. */
const MAX_ENCODINGS = 3
const decoders = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
  deflate: promisify(inflate),
  raw: promisify(inflateRaw),
}

async function decompress(
  answer: ExchangeAnswer,
  hop: Hop,
  { maxBytes, room }: ExchangeRequest,
): Promise<ExchangeAnswer> {
  if (answer.body.length === 0) return answer
  const encodings = String(answer.headers['content-encoding'])
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
  if (encodings.length === 0) return answer
  const { host } = hop.url
  if (encodings.length > MAX_ENCODINGS) {
    throw new EgressFailed('encoding', `${host} sent an answer compressed ${encodings.length} times`)
  }
  let body = answer.body
  for (const name of encodings.reverse()) {
    const packed = body.length
    body = await decode(name, body, host, maxBytes)
    room.bytes -= body.length - packed
    if (room.bytes < 0) throw noRoom()
  }
  const { 'content-encoding': _, 'content-length': __, ...headers } = answer.headers
  return { ...answer, headers, body }
}

async function decode(name: string, body: Buffer, host: string, maxBytes: number): Promise<Buffer> {
  // `deflate` means zlib's format, and some servers send it without its header.
  const known = name === 'deflate' && (body[0]! & 0x0f) !== 8 ? 'raw' : name
  if (!Object.hasOwn(decoders, known)) {
    throw new EgressFailed('encoding', `${host} sent an answer in the unknown encoding "${name.slice(0, 40)}"`)
  }
  try {
    return await decoders[known as keyof typeof decoders](body, { maxOutputLength: maxBytes })
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(host, maxBytes)
    throw new EgressFailed('encoding', `${host} sent an answer that cannot be decompressed`, error)
  }
}
