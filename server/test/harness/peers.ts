/** Peers that behave badly, for connection checks. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'

export interface Peer {
  port: number
  close(): Promise<void>
}

export type PeerKind = 'closed' | 'hangs up' | 'silent' | 'nonsense'

export async function startPeer(kind: PeerKind): Promise<Peer> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    if (kind === 'hangs up') socket.destroy()
    if (kind === 'nonsense') socket.end('\u0000\u0001 220 what do you want? \r\n\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  }
  // The port of a server that was just closed is one where nobody listens.
  if (kind === 'closed') {
    await close()
    return { port, close: async () => undefined }
  }
  return { port, close }
}
