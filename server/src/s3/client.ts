/**
 * Requests to an S3-compatible store: signed, sent by the transport that the caller brings (the service's own blobs go
 * directly, a tenant's buckets through egress) and retried. They are idempotent, so throttling and server errors are retried
 * until `patienceMs` has passed.
 */
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { encodePath, encodeQuery, type SigningKey, sha256, signRequest } from './signature.ts'
import { readTag, readText } from './xml.ts'

export interface S3Place extends SigningKey {
  endpoint: string
  bucket: string
  /** Path-style is `endpoint/bucket/key`, which every compatible store supports; virtual is `bucket.endpoint/key`. */
  addressing?: 'path' | 'virtual'
}

export interface S3Call {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE' | 'HEAD'
  /** Empty for requests about the bucket. */
  key?: string
  query?: Record<string, string>
  headers?: Record<string, string>
  body?: Uint8Array | string
}

/** What is sent, once signed. */
export interface S3Request {
  method: S3Call['method']
  url: string
  headers: Record<string, string>
  /** Absent for methods that have none. */
  body?: Uint8Array | string
  /** The answer may be an object of any size; every other one is short. */
  large: boolean
}

export interface S3Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: Readable
}

export interface S3Options {
  /** Never follows a redirect: the request is signed for one host. */
  transport(request: S3Request): Promise<S3Answer>
  /** How long requests are retried while the store is unavailable. */
  patienceMs: number
  signal?: AbortSignal
  /** Failures of the transport that a retry cannot mend. */
  isFinal?(error: Error): boolean
  /** Keys that change, instead of those of the place. */
  credentials?: CredentialSource
}

interface Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string | undefined
}

export interface CredentialSource {
  get(): Promise<Credentials>
  /** The store says that these have expired: the next `get` gives others. */
  expire(used: Credentials): void
}

export interface S3Client {
  place: S3Place
  send(call: S3Call): Promise<S3Answer>
}

interface S3ErrorDetails {
  call?: S3Call
  reason?: string | null
  region?: string | null
  retryAfterMs?: number
}

/** The store refused. */
export class S3Error extends Error {
  readonly status: number
  readonly code: string
  /** The store's own words. */
  readonly reason: string | null
  /** Where the bucket is, if the store says so. */
  readonly region: string | null
  readonly retryAfterMs: number
  constructor(status: number, code: string, details: S3ErrorDetails = {}) {
    const { call, reason = null, region = null, retryAfterMs = 0 } = details
    const what = call ? `${call.method} ${call.key ?? 'bucket'}` : 'a request'
    super(`The object store refused ${what}: ${code}${reason ? `, ${reason}` : ''}.`)
    this.name = 'S3Error'
    this.status = status
    this.code = code
    this.reason = reason
    this.region = region
    this.retryAfterMs = retryAfterMs
  }
}

/** The store could not be reached, or kept answering with server errors, for as long as it was tried. */
export class S3Unavailable extends Error {}

const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 10_000
const ERROR_BYTES = 64 * 1024

const isTransient = ({ status, code }: S3Error): boolean =>
  status >= 500 ? status !== 501 : status === 429 || code === 'RequestTimeout' || code === 'OperationAborted'

/** Of temporary credentials, also where a clock is wrong. */
const EXPIRED_CODES = ['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired']

export function createS3Client(place: S3Place, options: S3Options): S3Client {
  const { patienceMs, signal, isFinal, credentials } = options
  return {
    place,
    async send(call) {
      const deadline = performance.now() + patienceMs
      let renewed = false
      for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
        const keys = await (credentials?.get() ?? Promise.resolve(place)).catch((error: Error) => error)
        const answer =
          keys instanceof Error
            ? keys
            : await options.transport(signCall({ ...place, ...keys }, call)).catch((error: Error) => error)
        if (!(answer instanceof Error) && answer.status >= 200 && answer.status < 300) return answer
        signal?.throwIfAborted()
        const failure = answer instanceof Error ? answer : await readError(call, answer)
        if (credentials && !renewed && failure instanceof S3Error && EXPIRED_CODES.includes(failure.code)) {
          renewed = true
          if (!(keys instanceof Error)) credentials.expire(keys)
          continue
        }
        if (failure instanceof S3Error ? !isTransient(failure) : isFinal?.(failure)) throw failure
        const wait = Math.max(pause * (0.5 + Math.random()), failure instanceof S3Error ? failure.retryAfterMs : 0)
        if (performance.now() + wait > deadline)
          throw new S3Unavailable(`The object store does not answer: ${failure.message}`, { cause: failure })
        await delay(wait, undefined, signal ? { signal } : {})
      }
    },
  }
}

function signCall(place: S3Place, call: S3Call): S3Request {
  const { host, origin, path } = addressOf(place, call.key ?? '')
  const { method, query = {}, body = '' } = call
  const signed = signRequest(
    { method, host, path, query, headers: call.headers ?? {}, bodyHash: sha256(body) },
    place,
    new Date(),
  )
  const { host: _, ...headers } = signed
  const text = encodeQuery(query)
  return {
    method,
    url: `${origin}${path}${text === '' ? '' : `?${text}`}`,
    headers,
    large: method === 'GET' && call.key !== undefined,
    ...(method === 'PUT' || method === 'POST' ? { body } : {}),
  }
}

function addressOf(place: S3Place, key: string): { host: string; origin: string; path: string } {
  // A URL cannot express them: they would silently name another object.
  if (key.split('/').some((segment) => segment === '.' || segment === '..'))
    throw new S3Error(400, 'UnaddressableKey', { reason: 'a segment of the key is . or ..' })
  const endpoint = new URL(place.endpoint)
  const base = endpoint.pathname.replace(/\/$/, '')
  if (place.addressing === 'virtual') {
    const host = `${place.bucket}.${endpoint.host}`
    return { host, origin: `${endpoint.protocol}//${host}`, path: encodePath(`${base}/${key}`) }
  }
  const path = encodePath(`${base}/${place.bucket}${key === '' ? '' : `/${key}`}`)
  return { host: endpoint.host, origin: endpoint.origin, path }
}

async function readError(call: S3Call, answer: S3Answer): Promise<S3Error> {
  const body = await readText(answer.body, ERROR_BYTES).catch(() => '')
  const header = (name: string): string | null => {
    const value = answer.headers[name]
    return (Array.isArray(value) ? value[0] : value) ?? null
  }
  const seconds = Number(header('retry-after'))
  return new S3Error(answer.status, printable(readTag(body, 'Code')) ?? `HTTP ${answer.status}`, {
    call,
    reason: printable(readTag(body, 'Message')),
    region: printable(header('x-amz-bucket-region') ?? readTag(body, 'Region')),
    retryAfterMs: seconds > 0 ? seconds * 1000 : 0,
  })
}

/** Words of a server for a message of ours: short, on one line. */
function printable(text: string | null): string | null {
  const clean = text
    ?.slice(0, 300)
    .replace(/[\p{C}\s]+/gu, ' ')
    .replace(/\.?\s*$/, '')
    .trim()
  return clean ? clean : null
}

/** Sends a request whose answer has no content of interest. */
export async function drain(sending: Promise<S3Answer>): Promise<S3Answer> {
  const answer = await sending
  await readText(answer.body, ERROR_BYTES)
  return answer
}

/** The answer as text, for documents of the protocol. */
export async function sendForText(client: S3Client, call: S3Call, maxBytes: number): Promise<string> {
  return readText((await client.send(call)).body, maxBytes)
}
