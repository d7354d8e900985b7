/** The egress of one call: it shares nothing with other calls and leaves nothing open. */
import type { Socket } from 'node:net'
import { ConnectorError } from '../connectors/contract.ts'
import { createEgress, type Egress } from '../egress/policy.ts'
import type { EgressSettings } from './messages.ts'

/**
 * What a server may send during a check or a stream listing: a driver buffers a message until it is complete, however
 * long it is.
 */
const MAX_BYTES = 32 * 1024 * 1024
const LOOK_MS = 50

export interface CallEgress {
  egress: Egress
  close(): Promise<void>
}

export function createCallEgress(settings: EgressSettings): CallEgress {
  const egress = createEgress(settings)
  const sockets = new Set<Socket>()
  const watch = setInterval(() => {
    for (const socket of sockets) if (socket.bytesRead > MAX_BYTES) socket.destroy(tooMuch())
  }, LOOK_MS)
  const connect: Egress['connect'] = async (host, port, options) => {
    const socket = await egress.connect(host, port, options)
    sockets.add(socket)
    // The user of the connection handles errors; when TLS is layered on top, nothing may listen on this socket, so this
    // must.
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
  new ConnectorError('limit', `The server sent more than ${MAX_BYTES / 1024 / 1024} MB in answer to a check`)
