/** A POST that tells somebody something: only the status of the answer counts. For webhooks and chats. */
import type { Readable } from 'node:stream'
import { VERSION } from '../version.ts'
import { type Egress, EgressFailed, EgressRefused } from './policy.ts'
import { retryAfterMs } from './retry-after.ts'

export interface Notice {
  url: string
  headers: Record<string, string>
  body: string
  /** Masked where the receiver repeats them. */
  secrets: string[]
}

export type Answer =
  | { arrived: true; response_status: number | null }
  | { arrived: false; response_status: number | null; error: string; again: boolean; retryAfterMs: number }

const TIMEOUT_MS = 10_000
const EXCERPT_CHARACTERS = 200
/**
 * The maximum that is read of an answer: enough for an excerpt, and to keep the connection usable after an ordinary
 * one.
 */
const EXCERPT_BYTES = 16 * 1024
const LONGEST_RETRY_AFTER_MS = 24 * 60 * 60 * 1000
/** An answer that does not end by then has its connection closed. */
const DRAIN_MS = 1000
const GONE = 410

/** Throws if the signal was aborted, and for internal errors. */
export async function postNotice(
  egress: Pick<Egress, 'stream'>,
  { url, headers, body, secrets }: Notice,
  signal: AbortSignal,
): Promise<Answer> {
  try {
    const answer = await egress.stream(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': `sluice/${VERSION}`, ...headers },
      body,
      signal,
      timeoutMs: TIMEOUT_MS,
      maxRedirects: 0,
    })
    const { status } = answer
    const excerpt = readExcerpt(answer.body, secrets)
    // Drained without waiting: the receiver has the event, and a drained body keeps the connection usable.
    if (status >= 200 && status < 300) {
      setTimeout(() => answer.body.destroy(), DRAIN_MS).unref()
      return { arrived: true, response_status: status }
    }
    return {
      arrived: false,
      response_status: status,
      error: describeRefusal(status, await excerpt),
      again: status !== GONE,
      retryAfterMs: Math.min(retryAfterMs(answer) ?? 0, LONGEST_RETRY_AFTER_MS),
    }
  } catch (error) {
    signal.throwIfAborted()
    const refused = error instanceof EgressRefused
    if (!refused && !(error instanceof EgressFailed)) throw error
    return unanswered(capitalize(error.message), !refused)
  }
}

export const unanswered = (error: string, again: boolean): Answer => ({
  arrived: false,
  response_status: null,
  error,
  again,
  retryAfterMs: 0,
})

const capitalize = (sentence: string) => sentence.charAt(0).toUpperCase() + sentence.slice(1)

function describeRefusal(status: number, excerpt: string): string {
  const redirected = status >= 300 && status < 400 ? '; redirects are not followed, give the final address' : ''
  return `The receiver answered ${status}${redirected}${excerpt === '' ? '' : `: ${excerpt}`}`
}

/** The status decides. A body that cannot be read changes nothing, so this never throws. */
async function readExcerpt(body: Readable, secrets: string[]): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= EXCERPT_BYTES) break
    }
  } catch {
    // Cut off, too slow or badly compressed: what arrived is enough.
  }
  const text = Buffer.concat(chunks).toString('utf8')
  return excerptOf(secrets.reduce((masked, secret) => masked.replaceAll(secret, '********'), text))
}

/** One line of what somebody else wrote. */
export const excerptOf = (text: string): string =>
  text
    .replace(/[\s\p{Cc}\p{Cf}\ufffd]+/gu, ' ')
    .trim()
    .slice(0, EXCERPT_CHARACTERS)
    .toWellFormed()
