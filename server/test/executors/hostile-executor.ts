/**
 * In the place of an executor: a process that was taken over. What it does is the code of the call, so that each test says
 * it in its own lines. `say` sends a frame, `raw` bytes, `answer` an honest answer to a validation.
 */
import { Socket } from 'node:net'
import { openChannel } from '../../src/executors/channel.ts'
import type { ToExecutor } from '../../src/executors/messages.ts'

const socket = new Socket({ fd: 3, readable: true, writable: true })
socket.once('close', () => process.exit(0))

const honest = {
  valid: true,
  errors: [],
  warnings: [],
  extracted_source_name: null,
  extracted_streams: null,
  extracted_schema: { config_class_name: null, config_fields: [], auth_class_name: null, auth_type: null },
}

const channel = openChannel(
  socket,
  { head: 1 << 30, body: 0 },
  {
    message(message) {
      const said = message as ToExecutor
      if (said.type === 'settings') channel.send({ type: 'ready' })
      if (said.type !== 'call') return
      const { code } = said.call.input as { code: string }
      const say = (type: string, more: object = {}) => channel.send({ type, ...more })
      const answer = (change: object = {}) => say('answer', { answer: { ...honest, ...change }, reusable: true })
      const raw = (bytes: Uint8Array | string) => socket.write(bytes)
      new Function('say', 'answer', 'raw', 'channel', 'pid', code)(say, answer, raw, channel, process.pid)
    },
    broken: () => process.exit(1),
  },
)
