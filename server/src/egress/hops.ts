/** Follows a request through its redirects to the final answer, whichever way the bytes of that answer are read. */
import { acceptedEncodings } from './decoders.ts'
import { cleanHeaders, type Hop, isRedirect, nextHop } from './redirects.ts'
import { EgressFailed, EgressRefused } from './refusal.ts'
import { type AnswerHeaders, type EgressRequest, headerOf, type Sender } from './request.ts'

/** How the bytes of an answer are read: as a stream, or collected in memory. */
export interface AnswerReader<Raw extends { status: number; headers: AnswerHeaders }, Answer> {
  send(hop: Hop): Promise<Raw>
  /** Releases the answer of a redirect. */
  discard(redirect: Raw): Promise<void> | void
  finish(raw: Raw, hop: Hop, requests: number): Promise<Answer> | Answer
}

/** Only this much of a redirect's body is read, which is enough to keep the connection usable after an ordinary one. */
export const REDIRECT_BYTES = 16 * 1024
const MAX_REDIRECTS = 10
/** Servers do not accept longer URLs, and each is held in memory several times during the request. */
const MAX_URL_LENGTH = 65_536
const METHOD = /^[A-Z]+(-[A-Z]+)*$/

export async function followHops<Raw extends { status: number; headers: AnswerHeaders }, Answer>(
  sender: Sender,
  url: string | URL,
  request: EgressRequest,
  reader: AnswerReader<Raw, Answer>,
): Promise<Answer> {
  const maxRedirects = request.maxRedirects ?? MAX_REDIRECTS
  let hop = firstHop(url, request, sender.userAgent)
  for (let requests = 1; ; requests++) {
    sender.checkUrl(hop.url)
    const raw = await reader.send(hop)
    const location = redirectTarget(raw, request)
    if (location === undefined) return reader.finish(raw, hop, requests)
    await reader.discard(raw)
    if (requests > maxRedirects)
      throw new EgressFailed('redirects', `${hop.url.host} redirects more than ${maxRedirects} times`)
    hop = nextHop(hop, raw.status, location)
  }
}

/** The target of a redirect, if the answer is one and the caller follows redirects. */
export function redirectTarget(
  raw: { status: number; headers: AnswerHeaders },
  { maxRedirects }: Pick<EgressRequest, 'maxRedirects'>,
): string | undefined {
  return maxRedirects !== 0 && isRedirect(raw.status) ? headerOf(raw, 'location') : undefined
}

function firstHop(address: string | URL, request: EgressRequest, userAgent: string): Hop {
  const text = String(address)
  if (text.length > MAX_URL_LENGTH)
    throw new EgressRefused('host', `the address has more than ${MAX_URL_LENGTH} characters; send the rest as a body`)
  const url = URL.parse(text)
  if (!url) throw new EgressRefused('host', 'the address is not a URL; it must begin with https:// or http://')
  const method = (request.method ?? 'GET').toUpperCase()
  if (!METHOD.test(method) || method === 'CONNECT' || method === 'TRACE')
    throw new EgressRefused('method', `the method ${JSON.stringify(method.slice(0, 20))} is not allowed`)
  const headers = cleanHeaders(request.headers ?? {})
  headers['user-agent'] ??= userAgent
  headers.accept ??= '*/*'
  // A range counts the bytes as sent, so nothing may decode them on the way.
  const raw = headers.range !== undefined || request.decompress === false
  headers['accept-encoding'] ??= raw ? 'identity' : acceptedEncodings
  return { url, method, headers, body: request.body ?? null }
}

const EMPTY_STATUSES = new Set([204, 205, 304])

/** The encoding to undo, or null: an answer without a body has none, even if its headers name one. */
export function encodingOf(
  raw: { status: number; headers: AnswerHeaders },
  hop: Hop,
  { decompress }: Pick<EgressRequest, 'decompress'>,
): string | null {
  const encoding = raw.headers['content-encoding']
  if (encoding === undefined || decompress === false || !hasBody(raw.status, hop)) return null
  return String(encoding)
}

export function hasBody(status: number, hop: Hop): boolean {
  return hop.method !== 'HEAD' && !EMPTY_STATUSES.has(status)
}

/** The headers of a decoded answer: they describe the bytes that the caller gets. */
export function decodedHeaders(headers: AnswerHeaders): AnswerHeaders {
  const { 'content-encoding': _encoding, 'content-length': _length, ...rest } = headers
  return rest
}

/** Whether an answer announces that it is too large. After decompression it may have any size. */
export function announcesMoreThan(maxBytes: number, headers: AnswerHeaders): boolean {
  return headers['content-encoding'] === undefined && Number(headers['content-length']) > maxBytes
}
