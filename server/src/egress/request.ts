import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { openBody, tooLarge, translateFailure } from './body.ts'
import { untilAborted } from './connect.ts'
import { firstHop } from './first-hop.ts'
import { type Hop, isRedirect, nextHop } from './redirects.ts'
import { EgressFailed } from './refusal.ts'

export interface EgressRequest {
  method?: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  signal?: AbortSignal
  /** One deadline for everything, redirects and body included. */
  timeoutMs?: number
  /** Counted after decompression. */
  maxBytes?: number
  /** 0 gives the redirect itself back. */
  maxRedirects?: number
  /** False gives the bytes as they were sent. */
  decompress?: boolean
}

export interface EgressAnswer {
  status: number
  headers: Headers
  /** Where the answer came from, after redirects. */
  url: string
  body: Readable
}

export interface Sender {
  dispatcher: Dispatcher
  checkUrl(url: URL): void
  userAgent: string
}

const defaultMaxRedirects = 10
const emptyStatuses = new Set([204, 205, 304])

/** Sends a request hop by hop and gives the answer as a stream. Without `timeoutMs` only silence ends it. */
export async function send(sender: Sender, url: string | URL, request: EgressRequest): Promise<EgressAnswer> {
  const lifetime = startLifetime(request)
  try {
    const { method = 'GET', headers = {}, body = null, decompress } = request
    let hop = firstHop(url, { method, headers, body, userAgent: sender.userAgent, raw: decompress === false })
    const maxRedirects = request.maxRedirects ?? defaultMaxRedirects
    for (let redirects = 0; ; redirects++) {
      sender.checkUrl(hop.url)
      const response = await sendHop(sender.dispatcher, hop, lifetime.signal)
      const location = response.headers.location
      if (maxRedirects === 0 || !isRedirect(response.statusCode) || typeof location !== 'string') {
        return readAnswer(hop, response, request, lifetime)
      }
      await response.body.dump({ limit: 16 * 1024 }).catch(() => {})
      if (redirects === maxRedirects) {
        throw new EgressFailed('redirects', `${hop.url.host} redirects more than ${maxRedirects} times`)
      }
      hop = nextHop(hop, response.statusCode, location)
    }
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
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(
          () => controller.abort(new EgressFailed('timeout', `there was no complete answer within ${timeoutMs} ms`)),
          timeoutMs,
        )
  return {
    signal: controller.signal,
    release() {
      clearTimeout(timer)
      given?.removeEventListener('abort', stop)
    },
  }
}

async function sendHop(dispatcher: Dispatcher, hop: Hop, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
  const sending = dispatcher.request({
    origin: hop.url.origin,
    path: `${hop.url.pathname}${hop.url.search}`,
    method: hop.method as Dispatcher.HttpMethod,
    headers: hop.headers,
    body: hop.body,
    signal,
  })
  try {
    // undici hears an abort only once it is connected.
    return await untilAborted(sending, signal)
  } catch (error) {
    sending.then(({ body }) => body.on('error', () => {}).destroy()).catch(() => {})
    if (signal.aborted) throw signal.reason
    throw translateFailure(error, hop.url.host)
  }
}

function readAnswer(
  hop: Hop,
  response: Dispatcher.ResponseData,
  request: EgressRequest,
  lifetime: Lifetime,
): EgressAnswer {
  const headers = readHeaders(response.headers)
  const hasBody = hop.method !== 'HEAD' && !emptyStatuses.has(response.statusCode)
  const encoding = hasBody && request.decompress !== false ? headers.get('content-encoding') : null
  const maxBytes = request.maxBytes ?? null
  try {
    if (encoding === null && hasBody && maxBytes !== null && Number(headers.get('content-length')) > maxBytes) {
      throw tooLarge(hop.url.host, maxBytes)
    }
    const body = openBody(response.body, { host: hop.url.host, encoding, maxBytes, ...lifetime })
    if (encoding !== null) {
      headers.delete('content-encoding')
      headers.delete('content-length')
    }
    return { status: response.statusCode, headers, url: hop.url.href, body }
  } catch (error) {
    response.body.on('error', () => {}).destroy()
    throw error
  }
}

function readHeaders(raw: Record<string, string | string[] | undefined>): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(raw)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) headers.append(name, one)
  }
  return headers
}
