/** A pooler that does not pass on everything: it drops start-up parameters, or PostgreSQL's notifications. */
import type { ConnectionSettings } from '../../src/database/database.ts'
import { addressOf } from './database-proxy.ts'
import { startRelay } from './relay.ts'

export interface FilteringProxy {
  connection: ConnectionSettings & { port: number }
  close(): Promise<void>
}

export interface Filter {
  /** Names of start-up parameters that are dropped. */
  parameters?: string[]
  notifications?: boolean
}

export async function startFilteringProxy(target: ConnectionSettings, filter: Filter): Promise<FilteringProxy> {
  const { port, close } = await startRelay(addressOf(target), (client, upstream) => {
    client.once('data', (startUp: Buffer) => {
      upstream.write(dropParameters(startUp, filter.parameters ?? []))
      client.on('data', (chunk) => upstream.write(chunk))
    })
    let rest = Buffer.alloc(0)
    upstream.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 5 && rest.length >= 1 + rest.readInt32BE(1)) {
        const length = 1 + rest.readInt32BE(1)
        const message = rest.subarray(0, length)
        rest = rest.subarray(length)
        if (!(filter.notifications && message[0] === NOTIFICATION)) client.write(message)
      }
    })
  })
  return { connection: { ...target, host: '127.0.0.1', port }, close }
}

const NOTIFICATION = 'A'.charCodeAt(0)

/** A start-up message: its length, the protocol version, then names and values, each ended by a zero. */
function dropParameters(message: Buffer, names: string[]): Buffer {
  const words = message.subarray(8, -1).toString('utf8').split('\0').slice(0, -1)
  const kept = words.filter((_, index) => !names.includes(words[index - (index % 2)]!))
  const body = Buffer.from(`${kept.join('\0')}\0\0`)
  const head = Buffer.from(message.subarray(0, 8))
  head.writeInt32BE(8 + body.length, 0)
  return Buffer.concat([head, body])
}
