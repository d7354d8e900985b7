/** The parts of requests and answers that do not depend on how the bytes are read. */
import type { Dispatcher } from 'undici'
import type { RequestGroup } from './request-group.ts'

export interface EgressRequest {
  method?: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  signal?: AbortSignal
  /** One deadline for everything, including redirects and body. */
  timeoutMs?: number
  /** How long a streamed answer may send nothing, before its first byte and between two. Default: 60 seconds. */
  silenceMs?: number
  /** Counted after decompression. */
  maxBytes?: number
  /** 0 returns the redirect itself. */
  maxRedirects?: number
  /** False returns the bytes as they were sent. */
  decompress?: boolean
}

export interface WholeRequest extends EgressRequest {
  /** How many bytes are left for a batch of answers that are in memory together; each answer takes its share. */
  room?: { bytes: number }
  /** Instead of `signal`, for many requests that end together. */
  group?: RequestGroup
}

/** By lower-case name; a header that was sent more than once is a list. */
export type AnswerHeaders = Record<string, string | string[] | undefined>

export interface AnswerHead {
  status: number
  headers: AnswerHeaders
  /** Where the answer came from, after redirects. */
  url: string
  /** How many requests it took, redirects included. */
  requests: number
}

/** The first value of a header that was sent more than once. */
export function headerOf({ headers }: Pick<AnswerHead, 'headers'>, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}

/** What sending needs from the policy. */
export interface Sender {
  dispatcher: Dispatcher
  checkUrl(url: URL): void
  userAgent: string
}
