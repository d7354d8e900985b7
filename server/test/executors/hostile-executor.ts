/**
 * In place of an executor: a compromised process. It runs the code of the call or the job, so that each test defines
 * its behaviour inline. `say` sends a message, `raw` and `flood` send bytes, `answer` sends a valid answer to a
 * validation.
 */
import { Socket } from 'node:net'
import { openChannel } from '../../src/executors/channel.ts'
import type { ToExecutor } from '../../src/executors/messages.ts'

const socket = new Socket({ fd: 3, readable: true, writable: true })
// It does not go when it is told to, so it has to be killed; but not even this one stays for ever.
socket.once('close', () => setTimeout(() => process.exit(0), 5000))

const honest = {
  valid: true,
  errors: [],
  warnings: [],
  extracted_source_name: null,
  extracted_streams: null,
  extracted_schema: { config_class_name: null, config_fields: [], auth_class_name: null, auth_type: null },
  settings_enforced: false,
}

/** As fast as it is read, endlessly. */
function flood(bytes: Uint8Array): void {
  while (socket.write(bytes));
  socket.once('drain', () => flood(bytes))
}

function frame(message: object): Buffer {
  const head = Buffer.from(JSON.stringify(message))
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32LE(head.length, 0)
  return Buffer.concat([lengths, head])
}

const channel = openChannel(
  socket,
  { head: 1 << 30, body: 0, perSecond: { frames: 1e9, bytes: 1e12 } },
  {
    message(message) {
      const said = message as ToExecutor
      if (said.type === 'settings') channel.send({ type: 'ready' })
      if (said.type !== 'call' && said.type !== 'run') return
      const { code } = (said.type === 'run' ? said.job : said.call.input) as unknown as { code: string }
      const say = (type: string, more: object = {}) => channel.send({ type, ...more })
      const answer = (change: object = {}) => say('answer', { answer: { ...honest, ...change }, reusable: true })
      const raw = (bytes: Uint8Array | string) => socket.write(bytes)
      new Function('say', 'answer', 'raw', 'flood', 'frame', 'pid', code)(say, answer, raw, flood, frame, process.pid)
    },
    broken: () => process.exit(1),
  },
)
