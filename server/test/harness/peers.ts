/** Misbehaving peers, for connection checks. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'

export interface Peer {
  port: number
  close(): Promise<void>
}

export type PeerKind = 'closed' | 'hangs up' | 'silent' | 'nonsense'

export async function startPeer(kind: PeerKind): Promise<Peer> {
  const peer = await listen((socket) => {
    if (kind === 'hangs up') socket.destroy()
    if (kind === 'nonsense') socket.end('\u0000\u0001 220 what do you want? \r\n\r\n')
  })
  if (kind !== 'closed') return peer
  // Nothing listens on the port of a server that was just closed.
  await peer.close()
  return { port: peer.port, close: async () => undefined }
}

/** A server on this machine that handles each connection as given. */
export async function listen(serve: (socket: Socket) => void): Promise<Peer> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    serve(socket)
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

/** Sends the bytes again and again, as fast as the other side reads them, until it hangs up. */
export function sendForever(socket: Socket, bytes: Buffer): void {
  const chunk = Buffer.concat(new Array(Math.max(1, Math.ceil((1 << 16) / bytes.length))).fill(bytes))
  const send = (): void => {
    // A write that the kernel accepts at once completes in the same tick: others must have their turn too.
    if (socket.writable) socket.write(chunk, (error) => error ?? setImmediate(send))
  }
  send()
}
