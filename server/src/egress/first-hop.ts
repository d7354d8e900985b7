/** A request as it begins, whoever sends it: which methods are allowed, which headers belong to the connection. */
import { acceptedEncodings } from './body.ts'
import { cleanHeaders, type Hop } from './redirects.ts'
import { EgressRefused } from './refusal.ts'

export interface Beginning {
  method: string
  headers: Record<string, string>
  body: Hop['body']
  userAgent: string
  /** Whether the answer is wanted as it was sent. */
  raw?: boolean
}

const METHOD = /^[A-Z]+(-[A-Z]+)*$/

export function firstHop(address: string | URL, { method: given, userAgent, raw, ...rest }: Beginning): Hop {
  const url = URL.parse(String(address))
  if (!url) throw new EgressRefused('host', 'the address is not a URL; it must begin with https:// or http://')
  const method = given.toUpperCase()
  if (!METHOD.test(method) || method === 'CONNECT' || method === 'TRACE') {
    throw new EgressRefused('method', `the method ${JSON.stringify(method.slice(0, 20))} is not allowed`)
  }
  const headers = cleanHeaders(rest.headers)
  headers['user-agent'] ??= userAgent
  headers.accept ??= '*/*'
  // A range counts the bytes as sent, so nothing may change them on the way.
  headers['accept-encoding'] ??= headers.range !== undefined || raw ? 'identity' : acceptedEncodings
  return { url, method, headers, body: rest.body }
}
