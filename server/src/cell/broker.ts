/**
 * HTTP for a cell: takes batches of requests, sends them through egress and returns the answers. Requests, bytes and
 * time are limited per call. A failed request is an answer, which the author's code sees as an exception; only an
 * internal error ends the call.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { AuthenticationFailed } from '../connectors/authentication/failed.ts'
import type { Fetch, FetchRequest } from '../connectors/contract.ts'
import { EgressFailed, EgressRefused, type WholeAnswer } from '../egress/policy.ts'
import { RequestGroup } from '../egress/request-group.ts'
import { retryAfterMs } from '../egress/retry-after.ts'
import { encodeAnswers, type HttpAnswer, type HttpFailure, type HttpRequest } from './frames.ts'
import { type CellLimits, LIMIT_SETTINGS } from './limits.ts'

export interface BrokerOptions {
  /** Applies the source's authentication to the requests. */
  fetch: Fetch
  limits: CellLimits
  /** How an error names a limit that was reached; by default by the setting that changes it. */
  limitName?(limit: keyof CellLimits): string
  /** Called when a request waits before it is sent again. */
  log?(line: string): void
}

export interface Broker {
  /** The answer frame for a batch. */
  answer(requests: HttpRequest[], signal: AbortSignal): Promise<Buffer>
}

const PARALLEL = 8
/** The answers of a batch are sent together; at most this many of the largest size are held in memory. */
const BATCH_ANSWERS = 2
const DEFAULT_TIMEOUT_SECONDS = 30
const MAX_TIMEOUT_SECONDS = 300
const MAX_RETRIES = 10
/** If a server asks for a longer pause, we do not wait: the author's code gets its answer. */
const MAX_PAUSE_MS = 300_000
/** Shorter pauses would only fill the log. */
const LOGGED_PAUSE_MS = 100
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])

type ErrorKind = 'connection' | 'unknown_host' | 'timeout' | 'refused' | 'limit' | 'auth'
type Answer = WholeAnswer | { error: { kind: ErrorKind; message: string }; transient?: boolean }

/** What the requests of a batch share. */
interface Batch {
  room: { bytes: number }
  group: RequestGroup
}

export function createBroker(options: BrokerOptions): Broker {
  return new HttpBroker(options)
}

class HttpBroker implements Broker {
  readonly #options: BrokerOptions
  #group: RequestGroup | null = null
  #requests = 0
  #bytes = 0

  constructor(options: BrokerOptions) {
    this.#options = options
  }

  answer(requests: HttpRequest[], signal: AbortSignal): Promise<Buffer> {
    // The requests of a whole call end together, so they share a group.
    if (this.#group?.signal !== signal) this.#group = new RequestGroup(signal)
    const batch = { room: { bytes: BATCH_ANSWERS * this.#options.limits.max_response_bytes }, group: this.#group }
    return requests.length === 1
      ? this.#perform(requests[0]!, batch).then((answer) => encodeAnswers([describe(answer)]))
      : this.#performAll(requests, batch)
  }

  async #performAll(requests: HttpRequest[], batch: Batch): Promise<Buffer> {
    const answers: Answer[] = new Array(requests.length)
    let next = 0
    const serve = async (): Promise<void> => {
      for (let index = next++; index < requests.length; index = next++) {
        answers[index] = await this.#perform(requests[index]!, batch)
      }
    }
    await Promise.all(Array.from({ length: Math.min(PARALLEL, requests.length) }, serve))
    return encodeAnswers(answers.map(describe))
  }

  /** Sends a request, with retries. */
  async #perform(request: HttpRequest, batch: Batch): Promise<Answer> {
    const { signal } = batch.group
    const retries = Math.min(request.retries, MAX_RETRIES)
    for (let attempt = 0; ; attempt++) {
      let answer: Answer
      try {
        answer = this.#count(await this.#options.fetch(request.url, this.#prepare(request, batch)))
      } catch (error) {
        signal.throwIfAborted()
        answer = explain(error, this.#options)
      }
      if (attempt >= retries || !isWorthAnother(request.method, answer)) return answer
      const pauseMs = pauseBefore(attempt, answer)
      if (pauseMs >= LOGGED_PAUSE_MS) this.#options.log?.(describePause(pauseMs, request.url, answer))
      if (pauseMs > MAX_PAUSE_MS) return answer
      if ('status' in answer) batch.room.bytes += answer.body.length
      await sleep(pauseMs, undefined, { signal })
    }
  }

  #prepare(request: HttpRequest, { room, group }: Batch): FetchRequest {
    const { limits } = this.#options
    if (++this.#requests > limits.max_requests) throw new OverLimit('max_requests', this.#options)
    const headers: Record<string, string> = Object.create(null)
    for (const [name, value] of request.headers) headers[name.toLowerCase()] = value
    const sent: FetchRequest = {
      method: request.method,
      headers,
      timeoutMs: clampTimeout(request.timeout),
      maxBytes: limits.max_response_bytes,
      room,
      group,
      authenticate: request.auth,
    }
    if (request.body !== null) sent.body = request.body
    return sent
  }

  #count(answer: WholeAnswer): WholeAnswer {
    const { max_bytes } = this.#options.limits
    // The first one was counted before it was sent; redirects and a retry with a new token are added.
    this.#requests += answer.requests - 1
    this.#bytes += answer.body.length
    if (this.#bytes > max_bytes) throw new OverLimit('max_bytes', this.#options)
    return answer
  }
}

class OverLimit extends Error {
  constructor(limit: 'max_requests' | 'max_bytes', { limits, limitName = nameSetting }: BrokerOptions) {
    const what = limit === 'max_requests' ? 'HTTP requests' : 'bytes'
    super(`the source reached its limit of ${limits[limit]} ${what} (${limitName(limit)})`)
  }
}

const nameSetting = (limit: keyof CellLimits): string => `limit ${LIMIT_SETTINGS[limit]}`

function explain(error: unknown, { limits, limitName = nameSetting }: BrokerOptions): Answer {
  const wrap = (kind: ErrorKind, message: string): Answer => ({ error: { kind, message } })
  if (error instanceof OverLimit) return wrap('limit', error.message)
  if (error instanceof AuthenticationFailed)
    return { ...wrap('auth', error.message), ...(error.transient && { transient: true }) }
  if (error instanceof EgressRefused) return wrap('refused', error.message)
  if (!(error instanceof EgressFailed)) throw error
  switch (error.reason) {
    case 'timeout':
      return wrap('timeout', error.message)
    case 'request':
      return wrap('refused', error.message)
    case 'too_large':
      return wrap('limit', `${error.message} (${limitName('max_response_bytes')} ${limits.max_response_bytes})`)
    case 'connection':
    case 'dns':
      return { ...wrap('connection', error.message), transient: true }
    case 'unknown_host':
      return wrap('unknown_host', error.message)
    default:
      return wrap('connection', error.message)
  }
}

function clampTimeout(seconds: number): number {
  return Math.min(seconds || DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS) * 1000
}

function isWorthAnother(method: string, answer: Answer): boolean {
  const safe = SAFE_METHODS.has(method.toUpperCase())
  if ('error' in answer) return safe && answer.transient === true
  return answer.status === 429 || answer.status === 503 || (safe && (answer.status === 502 || answer.status === 504))
}

/** Retry-After if given, otherwise exponential backoff from 0.5 s, with jitter so that parallel requests spread out. */
function pauseBefore(attempt: number, answer: Answer): number {
  const asked = 'status' in answer ? retryAfterMs(answer) : null
  return asked ?? Math.min(500 * 2 ** attempt, 30_000) * (0.75 + Math.random() / 2)
}

function describePause(pauseMs: number, url: string, answer: Answer): string {
  const seconds = pauseMs < 10_000 ? Math.round(pauseMs / 100) / 10 : Math.round(pauseMs / 1000)
  const cause = 'error' in answer ? answer.error.message : `${hostOf(url)} answered ${answer.status}`
  if (pauseMs > MAX_PAUSE_MS)
    return `${cause} and asked to wait ${seconds} s; that is more than ${MAX_PAUSE_MS / 1000} s, so the source gets this answer`
  if ('status' in answer && retryAfterMs(answer) !== null)
    return `${cause}: waiting ${seconds} s, because the server asked for it`
  return `${cause}: waiting ${seconds} s before the next attempt`
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? 'the server'
}

function describe(answer: Answer): HttpAnswer | HttpFailure {
  if ('error' in answer) return answer
  const { status, headers, url, body } = answer
  let lines = ''
  for (const name in headers) {
    const value = headers[name]
    if (typeof value === 'string') lines += `\n${name}\n${value}`
    else for (const each of value ?? []) lines += `\n${name}\n${each}`
  }
  return { status, headers: lines.slice(1), url, body }
}
