/**
 * A TCP proxy that cuts both lines when it sees given bytes pass from client to server: before they are handed on, or
 * after, so that the server acts on them and its answer is lost.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface CuttingProxy {
  port: number
  /** Cuts at the nth message that holds the text. */
  cutAt(text: string, nth: number, when: 'before' | 'after'): void
  /** How often it has cut. */
  readonly cuts: number
  close(): Promise<void>
}

export async function startCuttingProxy(target: { host: string; port: number }): Promise<CuttingProxy> {
  let plan: { text: string; left: number; when: 'before' | 'after' } | null = null
  let cuts = 0
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
      })
    }
    upstream.on('data', (chunk) => client.write(chunk))
    client.on('data', (chunk: Buffer) => {
      const due = plan !== null && chunk.includes(plan.text) && --plan.left === 0
      if (!due) return void upstream.write(chunk)
      const { when } = plan!
      plan = null
      cuts += 1
      if (when === 'before') return void client.destroy()
      // The answer must not come back, but the server must have acted: it closes when it has read our end.
      upstream.removeAllListeners('data')
      upstream.on('data', () => undefined)
      upstream.end(chunk)
      client.destroy()
      upstream.removeAllListeners('close')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cutAt(text, nth, when) {
      plan = { text, left: nth, when }
    },
    get cuts() {
      return cuts
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
