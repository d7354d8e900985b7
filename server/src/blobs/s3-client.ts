/**
 * The few S3 requests that blobs need, over undici. URLs are path-style (`endpoint/bucket/key`), which every compatible
 * store supports. Requests are idempotent, so throttling and server errors are retried.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Agent, type Dispatcher, request } from 'undici'
import { BlobStoreUnavailable } from './blobs.ts'
import { encodePath, encodeQuery, type SigningKey, sha256, signRequest } from './s3-signature.ts'

export interface S3Options extends SigningKey {
  endpoint: string
  bucket: string
}

interface S3Request {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE' | 'HEAD'
  /** Empty for requests about the bucket. */
  key?: string
  query?: Record<string, string>
  headers?: Record<string, string>
  body?: Uint8Array | string
}

type S3Response = Dispatcher.ResponseData

export class S3Error extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 10_000
/** How long to wait for an answer before the request is sent again. */
const ANSWER_MS = 30_000

/** How long requests are retried while the store is unavailable: people who wait want to know soon. */
const USUAL_PATIENCE_MS = 4000
/** A run can wait: a store that is unavailable for two minutes only costs it that time. */
export const RUN_PATIENCE_MS = 120_000

const isTransient = ({ status }: S3Error): boolean => status >= 500 || status === 429

export interface S3Client {
  send(call: S3Request): Promise<S3Response>
}

export function createS3Client(options: S3Options, patienceMs = USUAL_PATIENCE_MS): S3Client {
  const endpoint = new URL(options.endpoint)
  // Stores close idle connections without notice; a body that stalls for a minute is considered lost.
  const dispatcher = new Agent({
    connections: 16,
    keepAliveTimeout: 4000,
    headersTimeout: Math.min(ANSWER_MS, 2 * patienceMs),
    bodyTimeout: 60_000,
  })

  async function sendOnce(call: S3Request): Promise<S3Response> {
    const path = encodePath(
      `${endpoint.pathname.replace(/\/$/, '')}/${options.bucket}${call.key ? `/${call.key}` : ''}`,
    )
    const query = call.query ?? {}
    const body = call.body ?? ''
    const signed = signRequest(
      { method: call.method, host: endpoint.host, path, query, headers: call.headers ?? {}, bodyHash: sha256(body) },
      options,
      new Date(),
    )
    const { host: _, ...headers } = signed
    const text = encodeQuery(query)
    return request(`${endpoint.origin}${path}${text === '' ? '' : `?${text}`}`, {
      method: call.method,
      headers,
      dispatcher,
      ...(call.method === 'PUT' || call.method === 'POST' ? { body } : {}),
    })
  }

  return {
    async send(call) {
      const deadline = performance.now() + patienceMs
      for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
        const answer = await sendOnce(call).catch((error: Error) => error)
        if (!(answer instanceof Error) && answer.statusCode < 300) return answer
        const failure = answer instanceof Error ? answer : await readError(call, answer)
        if (failure instanceof S3Error && !isTransient(failure)) throw failure
        const wait = pause * (0.5 + Math.random())
        if (performance.now() + wait > deadline)
          throw new BlobStoreUnavailable(`The object store does not answer: ${failure.message}`, { cause: failure })
        await delay(wait)
      }
    },
  }
}

async function readError(call: S3Request, response: S3Response): Promise<S3Error> {
  const body = await response.body.text()
  const code = readTag(body, 'Code') ?? `HTTP ${response.statusCode}`
  const reason = readTag(body, 'Message')
  const what = `${call.method} ${call.key ?? 'bucket'}`
  return new S3Error(
    response.statusCode,
    code,
    `The object store refused ${what}: ${code}${reason ? `, ${reason}` : ''}.`,
  )
}

/** The answers are small, flat XML with known tags, so they need no parser. */
export function readTag(xml: string, tag: string): string | null {
  const match = new RegExp(`<${tag}>([^<]*)</${tag}>`).exec(xml)
  return match ? unescapeXml(match[1]!) : null
}

export function readBlocks(xml: string, tag: string): string[] {
  return [...xml.matchAll(new RegExp(`<${tag}>(.*?)</${tag}>`, 'gs'))].map((match) => match[1]!)
}

function unescapeXml(text: string): string {
  return text
    .replace(/&#x([0-9a-f]+);/gi, (_, hex) => String.fromCodePoint(Number.parseInt(hex, 16)))
    .replace(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code)))
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&apos;', "'")
    .replaceAll('&amp;', '&')
}

export function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
