/**
 * One request of a cell and its whole answer. The rules are those of `egress`, hop by hop: its check of every address, its
 * dispatcher, its treatment of headers and redirects. What differs is the way to the bytes: an answer is collected in
 * memory without streams in between, because a source that makes small requests one after another makes many of them.
 */
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, inflateRaw, zstdDecompress } from 'node:zlib'
import type { Dispatcher } from 'undici'
import { acceptedEncodings, tooLarge, translateFailure } from '../egress/body.ts'
import { type Egress, EgressFailed, EgressRefused } from '../egress/policy.ts'
import { cleanHeaders, type Hop, isRedirect, nextHop } from '../egress/redirects.ts'

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
  signal: AbortSignal
}

export interface ExchangeAnswer {
  status: number
  headers: [string, string][]
  url: string
  body: Buffer
}

const MAX_REDIRECTS = 10
const METHOD = /^[A-Z]+(-[A-Z]+)*$/

export async function exchange(egress: Egress, request: ExchangeRequest): Promise<ExchangeAnswer> {
  const deadline = performance.now() + request.timeoutMs
  let hop = firstHop(request)
  for (let redirects = 0; ; redirects++) {
    egress.checkUrl(hop.url)
    const answer = await sendHop(egress.dispatcher, hop, request, deadline)
    const location = answer.headers.find(([name]) => name === 'location')?.[1]
    if (!isRedirect(answer.status) || location === undefined) return decompress(answer, hop, request)
    if (redirects === MAX_REDIRECTS) {
      throw new EgressFailed('redirects', `${hop.url.host} redirects more than ${MAX_REDIRECTS} times`)
    }
    request.room.bytes += answer.body.length
    hop = nextHop(hop, answer.status, location)
  }
}

function firstHop(request: ExchangeRequest): Hop {
  const url = URL.parse(request.url)
  if (!url) throw new EgressRefused('host', 'the address is not a URL; it must begin with https:// or http://')
  const method = request.method.toUpperCase()
  if (!METHOD.test(method) || method === 'CONNECT' || method === 'TRACE') {
    throw new EgressRefused('method', `the method ${JSON.stringify(method.slice(0, 20))} is not allowed`)
  }
  const headers = cleanHeaders(request.headers)
  headers['user-agent'] ??= 'sluice'
  headers.accept ??= '*/*'
  // A range counts the bytes as sent, so nothing may change them on the way.
  headers['accept-encoding'] ??= headers.range === undefined ? acceptedEncodings : 'identity'
  return { url, method, headers, body: request.body }
}

/** The answer of one hop, as it was sent. */
function sendHop(
  dispatcher: Dispatcher,
  hop: Hop,
  { signal, maxBytes, timeoutMs, room }: ExchangeRequest,
  deadline: number,
): Promise<ExchangeAnswer> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | null = null
    let ended = false
    const chunks: Buffer[] = []
    let size = 0
    let status = 0
    let headers: [string, string][] = []

    const settle = (): boolean => {
      if (ended) return false
      ended = true
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
      return true
    }
    const fail = (error: Error): void => {
      if (!settle()) return
      room.bytes += size
      controller?.abort(error)
      reject(error)
    }
    const abort = (): void => fail(signal.reason instanceof Error ? signal.reason : new Error('the call ended'))
    // Made when needed: the stack of an error costs more than the rest of this function.
    const late = () => new EgressFailed('timeout', `there was no complete answer within ${timeoutMs} ms`)
    const timer = setTimeout(() => fail(late()), Math.max(deadline - performance.now(), 0))
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort)

    dispatcher.dispatch(
      {
        origin: hop.url.origin,
        path: `${hop.url.pathname}${hop.url.search}`,
        method: hop.method as Dispatcher.HttpMethod,
        headers: hop.headers,
        body: hop.body,
      },
      {
        onRequestStart(started) {
          controller = started
          // It may have waited for a connection longer than anybody waited for it.
          if (ended) started.abort(late())
        },
        onResponseStart(_, code, raw) {
          status = code
          headers = listHeaders(raw)
        },
        onResponseData(_, chunk) {
          size += chunk.length
          room.bytes -= chunk.length
          if (size > maxBytes) fail(tooLarge(hop.url.host, maxBytes))
          else if (room.bytes < 0) fail(noRoom())
          else chunks.push(chunk)
        },
        onResponseEnd() {
          const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
          if (settle()) resolve({ status, headers, url: hop.url.href, body })
        },
        onResponseError(_, error) {
          fail(translateFailure(error, hop.url.host))
        },
      },
    )
  })
}

function listHeaders(raw: Record<string, string | string[] | undefined>): [string, string][] {
  const headers: [string, string][] = []
  for (const name in raw) {
    const value = raw[name]
    if (typeof value === 'string') headers.push([name, value])
    else for (const each of value ?? []) headers.push([name, each])
  }
  return headers
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
  const encodings = answer.headers
    .filter(([name]) => name === 'content-encoding')
    .flatMap(([, value]) => value.toLowerCase().split(','))
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
  if (encodings.length === 0 || answer.body.length === 0) return answer
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
  const headers = answer.headers.filter(([name]) => name !== 'content-encoding' && name !== 'content-length')
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
