/** Our own packets. */
import type { Socket } from 'node:net'
import { HEAD } from './packet-reader.ts'

/** A payload this long continues in the next packet. */
const FULL = 0xffffff
const COM_QUERY = 3

/** False if the socket wants us to wait. `onSent` is called when the bytes may be overwritten. */
export function sendPacket(socket: Socket, payload: Buffer, sequence: number, onSent?: () => void): boolean {
  const head = Buffer.allocUnsafe(HEAD)
  head.writeUIntLE(payload.length, 0, 3)
  head[3] = sequence & 0xff
  socket.cork()
  socket.write(head)
  const free = payload.length === 0 || socket.write(payload, onSent)
  socket.uncork()
  return free
}

/** A statement, in as many packets as it needs; the last is shorter than a full one. Returns how many. */
export function sendQuery(socket: Socket, text: string): number {
  const payload = Buffer.concat([Buffer.from([COM_QUERY]), Buffer.from(text)])
  let sequence = 0
  for (let at = 0; ; at += FULL) {
    const part = payload.subarray(at, at + FULL)
    sendPacket(socket, part, sequence++)
    if (part.length < FULL) return sequence
  }
}
