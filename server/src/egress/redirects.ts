/** What a redirect may change. A pure function from hop to hop, so that the rules can be read and tested alone. */
import { EgressRefused } from './refusal.ts'

export interface Hop {
  url: URL
  method: string
  headers: Record<string, string>
  body: string | Uint8Array | null
}

/** Set by the connection, not by the caller; `Host` would route a request past the name that was checked. */
const connectionHeaders = new Set([
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'content-length',
])

/** An API key can be in a header of any name, so another origin only gets headers that never contain one. */
const headersForAnyOrigin = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-type',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'range',
  'user-agent',
])

const redirectStatuses = new Set([301, 302, 303, 307, 308])

export function isRedirect(status: number): boolean {
  return redirectStatuses.has(status)
}

/** Lower-case names, without those that belong to the connection. */
export function cleanHeaders(given: Record<string, string>): Record<string, string> {
  const headers: Record<string, string> = {}
  let connection = ''
  for (const name in given) {
    const key = name.toLowerCase()
    if (key === 'connection') connection = given[name]!
    else if (!connectionHeaders.has(key)) headers[key] = given[name]!
  }
  if (connection === '') return headers
  const named = new Set(connection.split(',').map((token) => token.trim().toLowerCase()))
  return keepHeaders(headers, (name) => !named.has(name))
}

export function nextHop(hop: Hop, status: number, location: string): Hop {
  const url = URL.parse(location, hop.url.href)
  if (!url) throw new EgressRefused('redirect', `${hop.url.host} redirects to an invalid address`)
  if (hop.url.protocol === 'https:' && url.protocol === 'http:') {
    throw new EgressRefused('redirect', `${hop.url.host} redirects from https to http, which is not followed`)
  }
  const becomesGet =
    (status === 303 && hop.method !== 'HEAD' && hop.method !== 'GET') ||
    ((status === 301 || status === 302) && hop.method === 'POST')
  const next: Hop = becomesGet
    ? { url, method: 'GET', headers: keepHeaders(hop.headers, (name) => !name.startsWith('content-')), body: null }
    : { ...hop, url }
  if (url.origin === hop.url.origin) return next
  if (next.body !== null) {
    throw new EgressRefused(
      'redirect',
      `${hop.url.host} redirects a request with a body to ${url.host}, which is not followed`,
    )
  }
  return { ...next, headers: keepHeaders(next.headers, (name) => headersForAnyOrigin.has(name)) }
}

function keepHeaders(headers: Record<string, string>, keep: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => keep(name)))
}
