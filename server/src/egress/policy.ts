import type { Socket } from 'node:net'
import type { Dispatcher } from 'undici'

/** The one way out of the service, for connectors, tenant code, webhooks and the identity provider. */
export interface Egress {
  /** A TCP connection to an address that was checked after DNS, at connect time. */
  connect(host: string, port: number, options?: { signal?: AbortSignal; timeoutMs?: number }): Promise<Socket>
  /** An undici dispatcher whose every connection is checked the same way. */
  dispatcher: Dispatcher
  /** Throws EgressRefused for an address that is never allowed; called for every hop before a request is sent. */
  checkUrl(url: URL): void
  /** A request that follows redirects by hand, checking each hop, dropping credentials across origins. */
  fetch(url: string | URL, options?: EgressRequest): Promise<Response>
  close(): Promise<void>
}

export interface EgressRequest {
  method?: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  signal?: AbortSignal
  /** One deadline for everything, redirects and body included. */
  timeoutMs?: number
  /** Counted after decompression. */
  maxBytes?: number
  maxRedirects?: number
}

export class EgressRefused extends Error {}
