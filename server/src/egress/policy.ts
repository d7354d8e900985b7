/**
 * The one way out of the service, for connectors, tenant code, webhooks and the identity provider.
 *
 * Public addresses are open, everything else is closed unless the operator's EGRESS_ALLOW names it, and the service's own
 * listeners stay closed whatever it says. A name is resolved when the connection is made, every answer is checked, and
 * only checked answers are dialled; redirects are followed by hand and begin again at the first check.
 */
import type { Socket } from 'node:net'
import type { Dispatcher } from 'undici'
import { createDial, createDispatcher, type DialOptions } from './connect.ts'
import { createGuard, type Listener } from './guard.ts'
import { normalizeTarget } from './hosts.ts'
import { createSystemLookup, type Lookup } from './lookup.ts'
import { EgressFailed, EgressRefused } from './refusal.ts'
import type { AnswerHeaders, EgressRequest, Sender, WholeRequest } from './request.ts'
import { openStream, type StreamAnswer } from './stream-answer.ts'
import { fetchWhole, type WholeAnswer } from './whole-answer.ts'

export { EgressFailed, EgressRefused } from './refusal.ts'
export { type AnswerHead, type EgressRequest, headerOf, type WholeRequest } from './request.ts'
export type { StreamAnswer } from './stream-answer.ts'
export type { WholeAnswer } from './whole-answer.ts'

export interface Egress {
  /** A TCP connection to an address that was checked after DNS, at connect time. It never dials a second time. */
  connect(host: string, port: number, options?: DialOptions): Promise<Socket>
  /** Throws EgressRefused for an address that is never allowed; called for every hop before a request is sent. */
  checkUrl(url: URL): void
  /**
   * A request and its whole answer in memory. Redirects are followed by hand: each hop is checked, and credentials are
   * dropped when one leads to another origin. Defaults: 60 seconds and 64 MiB.
   */
  fetch(url: string | URL, request?: WholeRequest): Promise<WholeAnswer>
  /** The same for large bodies: no deadline or size limit unless given; destroy the body to give up. */
  stream(url: string | URL, request?: EgressRequest): Promise<StreamAnswer>
  close(): Promise<void>
}

export interface EgressOptions {
  /** The entries of EGRESS_ALLOW. */
  allow: readonly string[]
  /** Where the service itself listens; read at each check, so that a port may be added once it is known. */
  self: readonly Listener[]
  userAgent?: string
  /** Replaces DNS in tests. By default the system's resolver, in this egress's own lanes. */
  lookup?: Lookup
}

export function createEgress(options: EgressOptions): Egress {
  const guard = createGuard(options.allow, options.self)
  const dial = createDial(guard, options.lookup ?? createSystemLookup())
  const closing = new AbortController()
  /** Created at the first HTTP request: undici takes 11 MB, and connectors that only use a database never need it. */
  let dispatcher: Dispatcher | undefined
  /**
   * Cache of the last check: a source requests the same server again and again, and each connection is checked when it
   * is made.
   */
  let passed = { origin: '', listeners: 0 }

  function checkUrl(url: URL): void {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      throw new EgressRefused(
        'protocol',
        `addresses that begin with ${url.protocol} are not allowed; use https: or http:`,
      )
    }
    if (url.username !== '' || url.password !== '') {
      throw new EgressRefused(
        'credentials',
        `the address of ${url.host} holds a user name or password; give them as authentication`,
      )
    }
    const { origin } = url
    if (origin === passed.origin && options.self.length === passed.listeners) return
    const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
    guard.checkTarget(normalizeTarget(url.hostname, port).host, port)
    passed = { origin, listeners: options.self.length }
  }

  const sender: Sender = {
    get dispatcher() {
      dispatcher ??= createDispatcher(dial, closing.signal)
      return dispatcher
    },
    checkUrl,
    userAgent: options.userAgent ?? 'sluice',
  }
  return {
    connect: dial,
    checkUrl,
    fetch: (url, request = {}) => fetchWhole(sender, url, request),
    stream: (url, request = {}) => openStream(sender, url, request),
    /** Aborts open requests. */
    async close() {
      closing.abort(new EgressFailed('connection', 'the service is shutting down'))
      await dispatcher?.destroy()
    },
  }
}

type FetchOptions = Omit<EgressRequest, 'body' | 'headers' | 'signal'> & {
  headers?: Record<string, string> | Headers
  body?: string | Uint8Array | ArrayBuffer | URLSearchParams | object | null | undefined
  signal?: AbortSignal | null
  redirect?: string
}

/**
 * An `Egress` in the shape of the global `fetch`, for libraries that take one, such as openid-client. Redirects are
 * followed only if the library asks for it.
 */
export function asFetch(egress: Egress, limits: Pick<EgressRequest, 'timeoutMs' | 'maxBytes'> = {}) {
  return async (url: string, { method, headers, body, signal, redirect }: FetchOptions = {}): Promise<Response> =>
    asResponse(
      await egress.fetch(url, {
        ...limits,
        ...(method === undefined ? {} : { method }),
        headers: headers instanceof Headers ? Object.fromEntries(headers) : (headers ?? {}),
        ...(body === undefined || body === null ? {} : { body: readBody(body) }),
        ...(signal ? { signal } : {}),
        ...(redirect === 'manual' ? { maxRedirects: 0 } : {}),
      }),
    )
}

function asResponse({ status, headers, url, body }: WholeAnswer): Response {
  const empty = status === 204 || status === 205 || status === 304
  const response = new Response(empty ? null : new Uint8Array(body), { status, headers: asHeaders(headers) })
  Object.defineProperty(response, 'url', { value: url })
  return response
}

function asHeaders(raw: AnswerHeaders): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(raw)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) headers.append(name, one)
  }
  return headers
}

function readBody(body: NonNullable<FetchOptions['body']>): string | Uint8Array {
  if (typeof body === 'string' || body instanceof Uint8Array) return body
  if (body instanceof URLSearchParams) return body.toString()
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  throw new TypeError('a request body must be text or bytes')
}
