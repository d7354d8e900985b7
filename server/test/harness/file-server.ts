/** Serves files over HTTP on this machine, and asks for a bearer token where told to. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface FileServer {
  port: number
  url(name: string): string
  put(name: string, body: Buffer | string, token?: string): string
  /** Answers with a redirect. */
  redirect(name: string, to: string): string
  close(): Promise<void>
}

interface Served {
  body: Buffer
  token: string | undefined
  location?: string
}

export async function startFileServer(): Promise<FileServer> {
  const files = new Map<string, Served>()
  const server = createServer((request, response) => {
    const file = files.get(request.url ?? '')
    if (!file) return void response.writeHead(404).end('no such file')
    if (file.location) return void response.writeHead(302, { location: file.location }).end()
    if (file.token !== undefined && request.headers.authorization !== `Bearer ${file.token}`) {
      return void response.writeHead(401).end('who are you?')
    }
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
      files.set(`/${name}`, { body: Buffer.from(body as string), token })
      return url(name)
    },
    redirect(name, to) {
      files.set(`/${name}`, { body: Buffer.alloc(0), token: undefined, location: to })
      return url(name)
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
