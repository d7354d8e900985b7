/** Passes connections on to a server. What happens to the bytes on the way is up to the caller. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net'

export interface Relay {
  port: number
  close(): Promise<void>
}

/** `join` connects the two ends of each connection. When one of them closes, both do. */
export async function startRelay(
  target: NetConnectOpts,
  join: (client: Socket, upstream: Socket) => void,
): Promise<Relay> {
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
    join(client, upstream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
