/** A line to PostgreSQL that writes down what the clients ask: start-up parameters, and every statement in its order. */
import { type Relay, startRelay } from './relay.ts'

export interface RecordedConnection {
  parameters: Record<string, string>
  /** `name` is that of a prepared statement; '' where it has none. */
  statements: { text: string; name: string }[]
}

export interface StatementRecorder extends Relay {
  connections: RecordedConnection[]
}

const QUERY = 0x51
const PARSE = 0x50
const TLS_REQUEST = 80_877_103

export async function startStatementRecorder(target: { host: string; port: number }): Promise<StatementRecorder> {
  const connections: RecordedConnection[] = []
  const relay = await startRelay(target, (client, upstream) => {
    upstream.on('data', (chunk) => client.write(chunk))
    const record = createReader(connections)
    client.on('data', (chunk: Buffer) => {
      record(chunk)
      upstream.write(chunk)
    })
  })
  return { ...relay, connections }
}

function createReader(connections: RecordedConnection[]): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0)
  let connection: RecordedConnection | null = null
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const headLength = connection === null ? 4 : 5
      if (rest.length < headLength) return
      const length = rest.readInt32BE(headLength - 4) + headLength - 4
      if (rest.length < length) return
      const message = rest.subarray(0, length)
      rest = rest.subarray(length)
      if (connection !== null) readStatement(message, connection)
      else if (message.readInt32BE(4) !== TLS_REQUEST) {
        const words = message.subarray(8, -1).toString().split('\0').slice(0, -1)
        const pairs = words.flatMap((word, at) => (at % 2 === 0 ? [[word, words[at + 1] ?? '']] : []))
        connection = { parameters: Object.fromEntries(pairs), statements: [] }
        connections.push(connection)
      }
    }
  }
}

function readStatement(message: Buffer, { statements }: RecordedConnection): void {
  if (message[0] === QUERY) statements.push({ text: message.toString('utf8', 5, message.length - 1), name: '' })
  if (message[0] !== PARSE) return
  const [name = '', text = ''] = message.toString('utf8', 5).split('\0')
  statements.push({ text, name })
}
