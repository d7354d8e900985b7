/** A server on this machine whose paths are set by each test, and an egress that may reach it. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { after } from 'node:test'
import { createEgress, type Egress, type EgressOptions } from '../../src/egress/policy.ts'

export type Handler = (request: IncomingMessage, response: ServerResponse) => unknown

export interface TestServer {
  port: number
  base: string
  /** The requested paths. */
  seen: string[]
  on(path: string, handler: Handler): void
  serve(path: string, body: Buffer | string, headers?: Record<string, string>): void
  redirect(from: string, to: string, status?: number): void
  /** Answers with what was received, as JSON. */
  echo(path: string): void
}

/** Closed with the test file. */
export async function startServer(): Promise<TestServer> {
  const routes = new Map<string, Handler>()
  const seen: string[] = []
  const server = createServer((request, response) => {
    const path = request.url!.split('?')[0]!
    seen.push(path)
    const handler = routes.get(path)
    if (handler) handler(request, response)
    else response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  const on = (path: string, handler: Handler): void => void routes.set(path, handler)
  return {
    port,
    base: `http://127.0.0.1:${port}`,
    seen,
    on,
    serve: (path, body, headers = {}) => on(path, (_, response) => response.writeHead(200, headers).end(body)),
    redirect: (from, to, status = 302) =>
      on(from, (_, response) => response.writeHead(status, { location: to }).end('moved')),
    echo: (path) =>
      on(path, async (request, response) => {
        const body = String(await buffer(request))
        response.end(JSON.stringify({ method: request.method, headers: request.headers, body }))
      }),
  }
}

/** Closed with the test file, at the latest. */
export function openEgress(options: Partial<EgressOptions> = {}): Egress {
  const egress = createEgress({ allow: ['127.0.0.0/8', '::1'], self: [], ...options })
  after(() => egress.close())
  return egress
}
