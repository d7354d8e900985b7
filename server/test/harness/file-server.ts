/** Serves files over HTTP on this machine, and optionally requires a bearer token, or whatever a gate requires. */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface FileServer {
  port: number
  url(name: string): string
  put(name: string, body: Buffer | string, token?: string | Gate): string
  /** Answers with a redirect. */
  redirect(name: string, to: string): string
  close(): Promise<void>
}

/** Whether a request with these headers gets the file. */
type Gate = (headers: IncomingHttpHeaders) => boolean

interface Served {
  body: Buffer
  gate: Gate
  location?: string
}

export async function startFileServer(): Promise<FileServer> {
  const files = new Map<string, Served>()
  const server = createServer((request, response) => {
    const file = files.get(request.url ?? '')
    if (!file) return void response.writeHead(404).end('no such file')
    if (file.location) return void response.writeHead(302, { location: file.location }).end()
    if (!file.gate(request.headers)) return void response.writeHead(401).end('who are you?')
    response.writeHead(200, { 'content-length': file.body.length }).end(file.body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const url = (name: string): string => `http://127.0.0.1:${port}/${name}`
  return {
    port,
    url,
    put(name, body, token) {
      const gate =
        typeof token === 'string'
          ? (headers: IncomingHttpHeaders) => headers.authorization === `Bearer ${token}`
          : (token ?? (() => true))
      files.set(`/${name}`, { body: Buffer.from(body as string), gate })
      return url(name)
    },
    redirect(name, to) {
      files.set(`/${name}`, { body: Buffer.alloc(0), gate: () => true, location: to })
      return url(name)
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
