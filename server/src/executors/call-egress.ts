/** The way out of one call: nothing of it is shared with another call, and nothing of it stays open. */
import type { Socket } from 'node:net'
import { ConnectorError } from '../connectors/contract.ts'
import { createEgress, type Egress } from '../egress/policy.ts'
import type { EgressSettings } from './messages.ts'

/** What a server may answer to a check or a list of streams: a driver gathers a message until it is whole, however long it is. */
const MOST_BYTES = 32 * 1024 * 1024
const LOOK_MS = 50

export interface CallEgress {
  egress: Egress
  close(): Promise<void>
}

export function createCallEgress(settings: EgressSettings): CallEgress {
  const egress = createEgress(settings)
  const sockets = new Set<Socket>()
  const watch = setInterval(() => {
    for (const socket of sockets) if (socket.bytesRead > MOST_BYTES) socket.destroy(tooMuch())
  }, LOOK_MS)
  const connect: Egress['connect'] = async (host, port, options) => {
    const socket = await egress.connect(host, port, options)
    sockets.add(socket)
    // Whoever listens on the connection hears of an error; where TLS is put over it, nobody may listen down here.
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
    return socket
  }
  return {
    egress: { ...egress, connect },
    async close() {
      clearInterval(watch)
      for (const socket of sockets) socket.destroy()
      await egress.close()
    },
  }
}

const tooMuch = () =>
  new ConnectorError('limit', `The server answered more than ${MOST_BYTES / 1024 / 1024} MB to a check`)
