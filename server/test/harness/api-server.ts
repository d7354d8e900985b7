/**
 * An HTTP API on this machine, made of routes. What it was asked is recorded; answers can be delayed, refused or broken, as
 * those of real services are. The services in api-services.ts are built with it.
 */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface ApiRequest {
  method: string
  path: string
  params: URLSearchParams
  headers: IncomingHttpHeaders
  body: string
  /** The parts of the path that the route names with `:`. */
  route: Record<string, string>
}

export interface ApiAnswer {
  status?: number
  headers?: Record<string, string>
  /** Sent as JSON unless it is text or bytes. */
  body?: unknown
}

/** Undefined: the handler answers by itself. */
export type Handler = (
  request: ApiRequest,
  response: ServerResponse,
) => ApiAnswer | undefined | Promise<ApiAnswer | undefined>

export interface ApiServer {
  url: string
  port: number
  /** All requests, in the order in which they came. */
  requests: ApiRequest[]
  /** `GET /users/:id`. A later route of the same form replaces an earlier one. */
  on(route: string, handler: Handler): void
  /** Called before every handler; an answer replaces the handler's. */
  before: ((request: ApiRequest) => ApiAnswer | undefined | Promise<ApiAnswer | undefined>) | undefined
  close(): Promise<void>
}

interface Route {
  method: string
  parts: string[]
  handler: Handler
}

export async function startApi(): Promise<ApiServer> {
  const routes: Route[] = []
  const requests: ApiRequest[] = []
  const server = createServer(async (incoming, response) => {
    const url = new URL(incoming.url!, 'http://api')
    const method = incoming.method!
    const found = findRoute(routes, method, url.pathname)
    const { headers } = incoming
    const path = url.pathname
    const body = await text(incoming).catch(() => '')
    const request = { method, path, params: url.searchParams, headers, body, route: found?.named ?? {} }
    requests.push(request)
    const answer = (await api.before?.(request)) ?? (found ? await found.handler(request, response) : NOT_FOUND)
    if (answer === undefined) return
    const isRaw = typeof answer.body === 'string' || answer.body instanceof Uint8Array
    const sent = isRaw ? (answer.body as string) : JSON.stringify(answer.body ?? null)
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers }).end(sent)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const api: ApiServer = {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    before: undefined,
    on(route, handler) {
      const [method, path] = route.split(' ') as [string, string]
      routes.unshift({ method, parts: path.split('/'), handler })
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return api
}

const NOT_FOUND: ApiAnswer = { status: 404, body: { message: 'Not Found' } }

function findRoute(routes: readonly Route[], method: string, path: string) {
  const parts = path.split('/')
  for (const { method: wanted, parts: pattern, handler } of routes) {
    if (wanted !== method || pattern.length !== parts.length) continue
    const named: Record<string, string> = {}
    const fits = pattern.every((part, index) => {
      if (!part.startsWith(':')) return part === parts[index]
      named[part.slice(1)] = decodeURIComponent(parts[index]!)
      return true
    })
    if (fits) return { handler, named }
  }
  return null
}
